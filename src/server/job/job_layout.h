#pragma once

#include <span>
#include <string>
#include <vector>

#include "planning/schedule/schedule.h"
#include "protocol/job_spec.h"
#include "protocol/rank_cells.h"
#include "server/job/plan_version.h"

namespace lowgear::server {

/// The instructions of a job's ranks, and plans that hold one clock in all of them.
class JobLayout {
 public:
  /// Throws InputError when the specification has no schedule that can run.
  explicit JobLayout(const protocol::JobSpec& spec);

  [[nodiscard]] const schedule::Schedule& schedule() const { return schedule_; }
  [[nodiscard]] int stages() const { return schedule_.stages; }
  /// All units of all replicas run at this clock.
  [[nodiscard]] PlanVersion uniform_plan(protocol::PlanPurpose purpose, int clock_mhz) const;
  /// `expected_compute_s` of a uniform plan. Empty when `cells` lack a unit at this clock.
  [[nodiscard]] std::vector<std::vector<double>> compute_s(std::span<const protocol::ProfileCell> cells,
                                                           int clock_mhz) const;
  /// Throws InputError when a cell's stage is not on this pipeline rank.
  void require_own_stages(const protocol::RankCells& cells, int pp_rank) const;

 private:
  schedule::Schedule schedule_;
  std::vector<int> rank_of_stage_;
  std::string gpu_;
  int replicas_;
};

}  // namespace lowgear::server
