#pragma once

#include <optional>

namespace lowgear::server {

/// A condition that counts once it has lasted: what comes and goes is not reported.
class LastingState {
 public:
  /// Takes what is so at present. The new state when it has just lasted for `lasting_s`; at first it is false.
  [[nodiscard]] std::optional<bool> observe(bool is_so, double now_s, double lasting_s) {
    if (is_so == counts_) {
      since_s_.reset();
      return std::nullopt;
    }
    if (!since_s_) since_s_ = now_s;
    if (now_s - *since_s_ < lasting_s) return std::nullopt;
    since_s_.reset();
    counts_ = is_so;
    return counts_;
  }

 private:
  bool counts_ = false;
  std::optional<double> since_s_;  ///< when what is so at present began to differ
};

}  // namespace lowgear::server
