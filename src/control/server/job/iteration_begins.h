#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "control/protocol/rank_reports.h"

namespace lowgear::server {

/// When a job begins its iterations, as the first rank of its pipeline reports it.
class IterationBegins {
 public:
  /// A report of that rank; those without `begin_s` begin anew.
  void add(const protocol::IterationReport& report);

  struct Pace {
    std::int64_t iteration = 0;  ///< the newest one that was reported
    double begin_s = 0;          ///< of it, since 1970
    double time_s = 0;           ///< from begin to begin, without delays: the median of the last kMost iterations
  };
  /// Under this plan; empty until kLeast iterations in a row are known.
  [[nodiscard]] std::optional<Pace> pace(int plan_version) const;

  static constexpr std::size_t kLeast = 5;
  static constexpr std::size_t kMost = 16;

 private:
  std::deque<protocol::IterationReport> last_;  ///< consecutive, under one plan
};

}  // namespace lowgear::server
