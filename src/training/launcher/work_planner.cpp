#include "training/launcher/work_planner.h"

#include <algorithm>
#include <optional>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/communication.h"
#include "planning/workflow/work_replan.h"
#include "training/launcher/energy/blocking_power.h"
#include "training/launcher/training_schedule.h"

namespace lowgear::launcher {
namespace {

profile::Partition counts_of(std::span<const model::LayerRange> partition) {
  profile::Partition counts;
  for (const model::LayerRange& layers : partition) counts.push_back(static_cast<int>(layers.size()));
  return counts;
}

std::vector<model::LayerRange> ranges_of(const profile::Partition& counts) {
  std::vector<model::LayerRange> partition;
  std::int64_t layer = 0;
  for (const int count : counts) {
    partition.push_back({layer, layer + count});
    layer += count;
  }
  return partition;
}

PlannedPartition planned(const workflow::PlannedWork& work) {
  return {ranges_of(work.partition), plan::write_plan(work.plan)};
}

}  // namespace

WorkPlanner::WorkPlanner(const TrainConfig& config)
    : config_(&config), schedule_(without_communication(training_schedule(config, 0))) {
  const RepartitionConfig::Profile& given = config.adapt.repartition.value().profile.value();
  partition_ =
      counts_of(partition_layers(config.model, schedule_.stages, model::parse_partition_rule(config.partition)));
  profile_ =
      profile::layer_profile_of(profile::read_stage_profile(read_file(given.file), given.file.string()), partition_);
  blocking_power_w_ = read_blocking_power("adapt.repartition.blocking_power", given.blocking_power, schedule_.stages);
  workflow::WorkReplanRequest request{.profile = profile_,
                                      .blocking_power_w = blocking_power_w_,
                                      .before = {.schedule = schedule_},
                                      .partition = partition_,
                                      .after = {.schedule = schedule_},
                                      .step_time = workflow::StepTime::own_fastest};
  // Layers will have to move: where they cannot, that is said now.
  const double fastest_s = workflow::replan_work(request).before.fastest_s;
  deadline_s_ = fastest_s * (1 + given.slowdown_pct / 100);
  request.keep_partition = true;
  request.after_deadline_s = deadline_s_;
  const workflow::PlannedWork work = workflow::replan_work(request).after;
  first_figures_ = {work.plan.time_s, work.plan.energy_j};
  first_ = planned(work);
}

PartitionOptions WorkPlanner::options(std::int64_t frozen_blocks, std::span<const model::LayerRange> now) const {
  workflow::Work work{.change = {.frozen_layers = static_cast<int>(frozen_blocks)}, .schedule = schedule_};
  workflow::WorkReplanRequest request{.profile = profile_,
                                      .blocking_power_w = blocking_power_w_,
                                      .before = work,
                                      .partition = counts_of(now),
                                      .after = work,
                                      .keep_partition = frozen_blocks == 0,
                                      .step_time = workflow::StepTime::own_fastest};
  // In its own time first, which says what both partitions can do.
  const workflow::WorkReplan fastest = workflow::replan_work(request);
  request.after_deadline_s = std::max(deadline_s_, fastest.after.fastest_s);
  const workflow::WorkReplan replan = workflow::replan_work(request);
  const plan::Plan& stay = (replan.same_partition ? replan.same_partition : fastest.same_partition)->plan;
  PartitionOptions options{.stay = {{now.begin(), now.end()}, plan::write_plan(stay)}, .move = planned(replan.after)};
  Figures move{replan.after.plan.time_s, replan.after.plan.energy_j};
  if (frozen_blocks == 0) {
    options.move = first_;
    move = first_figures_;
  }
  options.saving = 1 - move.energy_j / stay.energy_j;
  // One that is later than it may be loses time, too.
  constexpr double kSameTime = 1 + 1e-9;
  if (stay.time_s > std::max(move.time_s, deadline_s_) * kSameTime) {
    options.saving = std::max(options.saving, 1 - move.time_s / stay.time_s);
  }
  return options;
}

}  // namespace lowgear::launcher
