#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lowgear::server {

/// Sign-ins of browsers on this machine: an address with a one-time token, which is exchanged once for the token of a
/// session. Both are in memory alone: a restart of the server ends them.
class SignIns {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kCodeLife{600};
  static constexpr std::chrono::seconds kSessionLife{12 * 3'600};
  static constexpr std::size_t kMaxCodes = 16;  ///< one more replaces the oldest; the same of sessions
  static constexpr std::size_t kMaxSessions = 64;

  /// Where browsers of this machine find the dashboard: `http://127.0.0.1:7787`. Empty: nowhere.
  void set_dashboard(std::string url) { dashboard_ = std::move(url); }
  [[nodiscard]] const std::string& dashboard() const { return dashboard_; }

  /// A new one-time token.
  [[nodiscard]] std::string new_code(Clock::time_point now);
  /// The dashboard's address with the code. A browser keeps what follows the `#` to itself: it is in no request, no log
  /// and no referrer.
  [[nodiscard]] std::string address_with(std::string_view code) const;
  /// The token of a new session; empty for a code that is unknown, expired or used.
  [[nodiscard]] std::optional<std::string> exchange(std::string_view code, Clock::time_point now);
  /// The name of the session with this token, `session 3`, for the audit log; empty for an unknown or expired one.
  [[nodiscard]] std::optional<std::string> session(std::string_view token, Clock::time_point now) const;

 private:
  struct Secret {
    std::string text;
    Clock::time_point until;
    int number = 0;
  };

  std::string dashboard_;
  std::vector<Secret> codes_;  ///< oldest first
  std::vector<Secret> sessions_;
  int begun_ = 0;  ///< sessions so far
};

}  // namespace lowgear::server
