#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "protocol/rank_reports.h"

namespace lowgear::server {

/// The offset of a rank's clock from the server's, from the times at which its requests were sent (the rank's clock)
/// and received (the server's). The duration of a request adds to the offset, so the smallest of the last ones counts.
class ClockDifference {
 public:
  /// Both in seconds since 1970. Finite.
  void add(double sent_s, double received_s);
  /// What to add to a time of the rank's clock: larger than the difference by the fastest request's time. 0 before
  /// any request.
  [[nodiscard]] double behind_s() const;

  /// Requests that count. A clock that was set back is found after this number.
  static constexpr std::size_t kMost = 32;

 private:
  std::deque<double> last_s_;
};

/// When a job begins its iterations, as the first rank of its pipeline reports it.
class IterationBegins {
 public:
  /// Takes the reports of that rank; a report without `begin_s` begins anew. `now_s`: since 1970, by the server's
  /// clock.
  void add(const protocol::RankReports& reports, double now_s);

  struct Pace {
    std::int64_t iteration = 0;  ///< the newest one that was reported
    double begin_s = 0;          ///< of it, since 1970 by the server's clock
    double time_s = 0;           ///< from begin to begin, without delays: the median of the last kMost iterations
    bool cannot_wait = false;    ///< the program lets no iteration be delayed
  };
  /// Under this plan; empty until kLeast iterations in a row are known.
  [[nodiscard]] std::optional<Pace> pace(int plan_version) const;

  static constexpr std::size_t kLeast = 5;
  static constexpr std::size_t kMost = 16;

 private:
  void add(const protocol::IterationReport& report);

  std::deque<protocol::IterationReport> last_;  ///< consecutive, under one plan
  ClockDifference clock_;
};

}  // namespace lowgear::server
