#include "training/launcher/training_schedule.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::launcher {

int frozen_stages(std::span<const model::LayerRange> partition, std::int64_t blocks) {
  int stages = 0;
  const int last = static_cast<int>(partition.size()) - 1;
  while (blocks > 0 && stages < last && partition[static_cast<std::size_t>(stages)].end <= blocks) ++stages;
  return stages;
}

namespace {

void require_fits(const schedule::Schedule& schedule, const TrainConfig& config) {
  if (schedule.rank_count() == config.parallel.pp && schedule.microbatches == config.microbatches) return;
  throw InputError(fmt::format("schedule: {} has {} ranks and {} microbatches, and the configuration {} and {}",
                               quote(schedule.name), schedule.rank_count(), schedule.microbatches, config.parallel.pp,
                               config.microbatches));
}

/// The units of a server's plan, of a plan's file and of a sweep are those of one schedule: a change of it takes them
/// out of step, and a server plans a backward for every stage.
void require_same_units(const TrainConfig& config, std::span<const model::LayerRange> partition) {
  const int most = frozen_stages(partition, config.freeze.most_blocks());
  const bool searches = config.adapt.slowdown && !config.adapt.slowdown->plans.empty();
  const bool served = config.server && !config.adapt.freezing;  // or the server's plans are not followed
  const char* follower = served        ? "a server's plans"
                         : config.plan ? "energy.plan"
                         : searches    ? "adapt.slowdown.plans (adapt.slowdown.clocks_mhz can)"
                                       : "energy.profile";
  const bool follows = served || ((config.plan || config.profile || searches) && config.freeze.changes());
  if (!follows || most == 0) return;
  throw InputError(
      fmt::format("adapt.freeze: {} of the stages would lose its backward, which {} cannot follow; freeze fewer "
                  "blocks, or leave that out",
                  most, follower));
}

/// Partitions of later steps, before the first.
void require_partitions(const TrainConfig& config, int stages) {
  if (!config.adapt.repartition) return;
  for (const RepartitionConfig::Switch& entry : config.adapt.repartition->schedule) {
    try {
      (void)partition_layers(config.model, stages, model::parse_partition_rule(entry.partition));
    } catch (const InputError& error) {
      throw InputError(fmt::format("adapt.repartition.schedule: step {}: {}", entry.step, error.what()));
    }
  }
}

/// Computations of a rank of a plan, as actions of a schedule.
std::vector<schedule::Action> computations(const std::vector<plan::PlannedOp>& ops) {
  std::vector<schedule::Action> actions;
  actions.reserve(ops.size());
  for (const plan::PlannedOp& op : ops)
    actions.push_back({schedule::ActionKind::compute, op.kind, op.stage, op.microbatch});
  return actions;
}

/// An agent that follows a plan counts units: in another order they would get each other's clocks.
void require_planned(const schedule::Schedule& schedule, const std::filesystem::path& path) {
  const plan::Plan plan = plan::read_plan(read_file(path, plan::kMaxPlanBytes), path.string());
  const auto refuse = [&](const std::string& what) {
    throw InputError(fmt::format("{}: {}; plan again, or train by the plan's schedule.csv", path.string(), what));
  };
  plan::refuse_settings_but_power_limits(plan, path.string() + ": lowgear train");
  const schedule::Schedule expected = without_communication(schedule);
  if (plan.ranks.size() != expected.ranks.size() || plan.microbatches != expected.microbatches) {
    refuse(fmt::format("the plan has {} ranks and {} microbatches, the schedule {} ranks and {} microbatches",
                       plan.ranks.size(), plan.microbatches, expected.rank_count(), expected.microbatches));
  }
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    if (computations(plan.ranks[rank]) == expected.ranks[rank]) continue;
    refuse(fmt::format("its rank {} runs in another order than that of {}", rank, quote(schedule.name)));
  }
}

}  // namespace

schedule::Schedule training_schedule(const TrainConfig& config, std::int64_t frozen_blocks,
                                     std::span<const int> early_forwards) {
  schedule::Schedule schedule;
  if (!early_forwards.empty()) {
    schedule = schedule::envpipe_schedule(config.microbatches, early_forwards);
  } else if (config.schedule == kEnvPipeSchedule) {
    schedule = schedule::envpipe_schedule(config.microbatches, starting_order(config).early_forwards);
  } else if (config.schedule.ends_with(".csv")) {
    schedule = schedule::read_torch_csv(read_file(config.schedule), config.schedule);
  } else {
    schedule = schedule::make_schedule({.name = config.schedule,
                                        .ranks = config.parallel.pp,
                                        .microbatches = config.microbatches,
                                        .chunks = config.parallel.chunks,
                                        .envpipe_stages = {}});
  }
  validate(schedule);
  if (recomputes(schedule)) {
    throw InputError(
        fmt::format("{}: it has recomputations, which lowgear train does not run as ops of their own; name another "
                    "schedule, and set recompute: true to recompute in backwards",
                    schedule.name));
  }
  require_fits(schedule, config);
  require_divisible(config.model, config.parallel.tp);
  const std::vector<model::LayerRange> partition =
      partition_layers(config.model, schedule.stages, model::parse_partition_rule(config.partition));
  schedule = with_frozen_stages(schedule, frozen_stages(partition, frozen_blocks));
  require_same_units(config, partition);
  if (config.plan) require_planned(schedule, *config.plan);
  schedule = with_communication(schedule);
  if (schedule.rank_count() > 1) require_runnable(schedule, schedule::P2pGrouping::none);
  return schedule;
}

schedule::Schedule training_schedule(const TrainConfig& config) {
  schedule::Schedule schedule = training_schedule(config, config.freeze.blocks_at(0));
  require_partitions(config, schedule.stages);
  if (config.adapt.slowdown) {
    for (const std::filesystem::path& plan : config.adapt.slowdown->plans) require_planned(schedule, plan);
  }
  return schedule;
}

schedule::Schedule evaluation_schedule(const TrainConfig& config, int microbatches) {
  const schedule::Schedule schedule = training_schedule(config);
  schedule::Schedule forwards = with_frozen_stages(schedule, schedule.stages);
  for (std::vector<schedule::Action>& actions : forwards.ranks) {
    std::erase_if(actions, [&](const schedule::Action& action) { return action.microbatch >= microbatches; });
  }
  forwards.microbatches = microbatches;
  return forwards;
}

RankLayout training_layout(const protocol::JobParallel& parallel, const schedule::Schedule& schedule) {
  const std::vector<int> rank_of = rank_of_stage(schedule);
  return {parallel, {.first = rank_of.front(), .last = rank_of.back()}};
}

policies::EnvPipeOrder order_in_memory(const EnvPipeMemory& memory, int microbatches,
                                       const policies::EnvPipeFindings& found) {
  policies::EnvPipeOrder order = envpipe_order(microbatches, found, memory.extra_activations);
  if (order.note.empty()) return order;
  if (!memory.is_stated()) {
    order.note += "; this is what 1F1B holds: state what fits as energy.envpipe.memory_limit (--memory-limit)";
  } else if (!memory.bytes.empty()) {
    order.note += fmt::format(
        "; this is what 1F1B holds, as it is not known how many microbatches {} are: state their number as "
        "energy.envpipe.memory_limit (--memory-limit)",
        memory.bytes);
  }
  return order;
}

policies::EnvPipeOrder starting_order(const TrainConfig& config) {
  const int ranks = config.parallel.pp;
  if (config.parallel.chunks != 1) {
    throw InputError(fmt::format("schedule: {} has one stage per rank, and parallel.chunks is {}", kEnvPipeSchedule,
                                 config.parallel.chunks));
  }
  if (!config.early_forwards.empty()) return {.early_forwards = config.early_forwards, .note = {}};
  const int microbatches = config.microbatches;
  if (!config.envpipe || !config.envpipe->profile) {
    return order_in_memory(config.envpipe_memory, microbatches,
                           {.optimal_mhz = {}, .stages = policies::stages_without_profile(ranks)});
  }
  const EnvPipeMemory counted{
      .extra_activations =
          extra_activations(config.envpipe_memory, profiled_activation_bytes(*config.envpipe), ranks, microbatches)};
  return order_in_memory(counted, microbatches, order_findings_on_profile(*config.envpipe, ranks, microbatches));
}

std::string starting_note(const TrainConfig& config) {
  if (config.schedule != kEnvPipeSchedule) return {};
  const std::string note = starting_order(config).note;
  return note.empty() ? note : fmt::format("schedule {}: {}", kEnvPipeSchedule, note);
}

}  // namespace lowgear::launcher
