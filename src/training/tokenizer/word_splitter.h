#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace lowgear::tokenizer {

/// The pattern that cuts a text into pieces, which are encoded one by one; no token crosses a cut.
enum class SplitPattern {
  gpt2,   ///< Radford et al. 2019; what Hugging Face's ByteLevel does by itself
  llama3  ///< that of OpenAI's cl100k_base, which Llama 3 took over
};

/// The pattern that is spelled this way in `tokenizer.json`; nullptr when it is not a known one.
[[nodiscard]] const SplitPattern* find_split_pattern(std::string_view regex);
/// How it is spelled.
[[nodiscard]] std::string_view regex_of(SplitPattern pattern);

/// Cuts text into words by a pattern. Every byte is in exactly one word. Bytes that are no UTF-8, about which the
/// patterns say nothing, are words by themselves, as many of them as stand together.
class WordSplitter {
 public:
  explicit WordSplitter(SplitPattern pattern);

  /// Calls `word` with each word in order. Throws InputError where millions of characters of one kind follow each
  /// other.
  void split(std::string_view text, const std::function<void(std::string_view)>& word) const;

 private:
  class Regex;
  std::shared_ptr<const Regex> regex_;
};

}  // namespace lowgear::tokenizer
