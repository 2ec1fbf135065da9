#pragma once

#include <optional>
#include <string>

#include "planning/workflow/power/stagger.h"
#include "server/job/job_record.h"

namespace lowgear::server {

/// A job whose iterations could be staggered against those of others, as it is at present.
struct StaggeredJob {
  std::string id;
  int plan_version = 0;
  workflow::JobCycle cycle;  ///< planned power of an iteration, of the GPUs that count
  double waiting_w = 0;      ///< that these draw while the pipeline is empty
  std::optional<IterationBegins::Pace> pace;
  double most_delay_s = 0;    ///< by which an iteration may be delayed
  std::string not_delayed{};  ///< why that is 0; empty: it is not
};

/// After its plan a job's GPUs wait, while gradients are reduced and the optimizer steps, for as long as its recent
/// iterations took more. `share`: of its GPUs, those that count. Empty: it follows no plan.
[[nodiscard]] std::optional<StaggeredJob> staggered_job(const JobRecord& job, double share);

/// Its power where its iterations begin once a period.
[[nodiscard]] workflow::JobCycle cycle_of(const StaggeredJob& job, double period_s);

/// Of what an iteration could take longer before the job's guard would act, the share that delays may take.
inline constexpr double kSlackShare = 0.25;
/// No delay is longer than this share of an iteration.
inline constexpr double kMostDelayShare = 0.1;

}  // namespace lowgear::server
