#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::tokenizer {

/// A token that stands for itself wherever it occurs in a text (`<|endoftext|>`).
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
};

/// Finds added tokens in text.
class AddedTokens {
 public:
  /// No content may be empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    std::size_t begin = 0;
    const AddedToken* token = nullptr;
  };
  /// The leftmost occurrence of one, the longest of those that begin there.
  [[nodiscard]] std::optional<Match> find(std::string_view text) const;

 private:
  std::array<std::vector<AddedToken>, 256> by_first_byte_;  ///< longest first
};

}  // namespace lowgear::tokenizer
