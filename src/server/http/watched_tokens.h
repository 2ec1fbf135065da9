#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/core/files/file_watch.h"
#include "server/http/access_tokens.h"

namespace lowgear::server {

/// A token file that is read again when it has changed.
class WatchedTokens {
 public:
  struct Change {
    /// Those of the new file; empty when it is refused, and the present ones stay valid.
    std::vector<AccessToken> tokens;
    std::string message;     ///< which changed, by name, or why the file is refused
    bool withdraws = false;  ///< a token that was valid is not any more, or has fewer scopes

    [[nodiscard]] bool refused() const { return tokens.empty(); }
  };

  /// Reads the file. Throws as `load_tokens`.
  explicit WatchedTokens(std::filesystem::path path);

  /// Those that were read without a mistake last.
  [[nodiscard]] const std::vector<AccessToken>& tokens() const { return tokens_; }
  /// Whether the file as it is now was refused.
  [[nodiscard]] bool stale() const { return stale_; }
  /// To be called about once a second. Empty while the file has not changed.
  [[nodiscard]] std::optional<Change> check();

 private:
  std::filesystem::path path_;
  FileWatch watch_;  ///< from before the file is read: a later change is not missed
  std::vector<AccessToken> tokens_;
  bool stale_ = false;
};

}  // namespace lowgear::server
