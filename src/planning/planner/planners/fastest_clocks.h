#pragma once

#include <cstddef>
#include <vector>

#include "planning/planner/frontier/work_report.h"
#include "planning/planner/planners/latency_planner.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"

namespace lowgear::planner {

/// Clocks for the shortest iteration on GPUs on which a clock change takes effect late. Without latency that is every
/// op at its fastest clock. With it, clocks that differ within a rank cost time: noise in a profile, or a power cap,
/// may make another clock than the highest the fastest one of some ops and not of others. Starts from all ops at their
/// highest clocks, from all at their fastest, and from the latter with rises asked for in advance, and changes the
/// clocks of ranks, of (stage, kind) and of neighbouring ops as long as that makes the iteration shorter. Where the
/// granularity of `latency` is one clock a (stage, kind), only of what keeps to that, and without rises. Never slower
/// than all ops at their highest clocks; where that is the fastest clock of every op, nothing is faster. Else it is the
/// best found, which tests compare with all possibilities of small pipelines.
class FastestClocks {
 public:
  /// Arguments must outlive the search. `work` may be null.
  FastestClocks(const schedule::PipelineDag& dag, const profile::StageProfile& profile, const LatencyPlanner& latency,
                WorkReport* work);

  /// Ends at once when it finds clocks that take `bound_s` at most, which no clocks can beat.
  [[nodiscard]] ReplayedClocks find(double bound_s);

 private:
  struct Candidate {
    ReplayedClocks clocks;
    double time_s = 0;
    double busy_s = 0;  ///< of all ranks: of two equally long iterations the one with more slack can be shortened
  };

  [[nodiscard]] Candidate replayed(std::vector<int> clocks_mhz);
  void descend(Candidate& best);
  bool change_ranks(Candidate& best);
  bool change_cells(Candidate& best);
  bool change_ops(Candidate& best);
  bool try_clocks(Candidate& best, std::vector<int> clocks_mhz);
  [[nodiscard]] bool is_shortest(const Candidate& best) const;
  [[nodiscard]] bool may_differ_by_op() const;
  [[nodiscard]] bool is_done(const Candidate& best) const;

  const schedule::PipelineDag* dag_;
  const profile::StageProfile* profile_;
  const LatencyPlanner* latency_;
  WorkReport* work_;
  double bound_s_ = 0;
  std::size_t trials_ = 0;  ///< replays that are left
};

}  // namespace lowgear::planner
