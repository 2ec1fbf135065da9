#pragma once

#include <cstddef>
#include <deque>

namespace lowgear::server {

/// How far a rank's clock is behind the server's, by when its requests were sent (by its clock) and came (by the
/// server's). What a request takes adds to that, so that the least of the last ones counts.
class ClockDifference {
 public:
  /// Both in seconds since 1970. Finite.
  void add(double sent_s, double received_s);
  /// What to add to a time of the rank's clock: larger than the difference by the fastest request's time. 0 before
  /// any request.
  [[nodiscard]] double behind_s() const;

  /// Requests that count. A clock that is set back is known after so many.
  static constexpr std::size_t kMost = 32;

 private:
  std::deque<double> last_s_;
};

}  // namespace lowgear::server
