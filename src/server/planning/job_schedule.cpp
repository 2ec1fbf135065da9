#include "server/planning/job_schedule.h"

#include <fmt/format.h>

#include <vector>

#include "base/core/error.h"
#include "planning/planner/policies/envpipe/envpipe_start.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/deadlock.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::server {
namespace {

schedule::Schedule generated(const protocol::JobSpec& spec) {
  if (spec.schedule_is_csv) return schedule::read_torch_csv(spec.schedule, "schedule.csv");
  if (!spec.early_forwards.empty()) return schedule::envpipe_schedule(spec.microbatches, spec.early_forwards);
  return schedule::make_schedule({.name = spec.schedule,
                                  .ranks = spec.parallel.pp,
                                  .microbatches = spec.microbatches,
                                  .chunks = spec.parallel.chunks,
                                  .envpipe_stages = planner::stages_without_profile(spec.parallel.pp)});
}

}  // namespace

std::vector<int> early_forwards(const protocol::JobSpec& spec) {
  if (spec.schedule_is_csv || spec.schedule != "envpipe") return {};
  return spec.early_forwards.empty()
             ? envpipe_extra_forwards(spec.microbatches, planner::stages_without_profile(spec.parallel.pp))
             : spec.early_forwards;
}

std::size_t job_units(const protocol::JobSpec& spec) {
  return 2 * static_cast<std::size_t>(spec.parallel.stages()) * static_cast<std::size_t>(spec.microbatches);
}

schedule::Schedule make_schedule(const protocol::JobSpec& spec) {
  const std::size_t units = job_units(spec);
  if (units > kMaxJobActions) {
    throw InputError(fmt::format("a schedule of {} stages and {} microbatches has {} units, more than {}",
                                 spec.parallel.stages(), spec.microbatches, units, kMaxJobActions));
  }
  schedule::Schedule schedule = without_communication(generated(spec));
  validate(schedule);
  if (schedule.rank_count() != spec.parallel.pp || schedule.stages != spec.parallel.stages() ||
      schedule.microbatches != spec.microbatches) {
    throw InputError(fmt::format(
        "the schedule has {} ranks, {} stages and {} microbatches; the job has pp {}, {} stages and {} microbatches",
        schedule.rank_count(), schedule.stages, schedule.microbatches, spec.parallel.pp, spec.parallel.stages(),
        spec.microbatches));
  }
  return schedule;
}

}  // namespace lowgear::server
