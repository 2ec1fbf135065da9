#include "launcher/training_schedule.h"

#include <fmt/format.h>

#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "model/partition.h"
#include "schedule/communication.h"
#include "schedule/deadlock.h"
#include "schedule/generators.h"
#include "schedule/torch_csv.h"

namespace lowgear {
namespace {

void require_fits(const Schedule& schedule, const TrainConfig& config) {
  if (schedule.rank_count() == config.parallel.pp && schedule.microbatches == config.microbatches) return;
  throw InputError(fmt::format("schedule: {} has {} ranks and {} microbatches, and the configuration {} and {}",
                               quote(schedule.name), schedule.rank_count(), schedule.microbatches, config.parallel.pp,
                               config.microbatches));
}

void require_divides(const Schedule& schedule, const TrainConfig& config) {
  require_divisible(config.model, config.parallel.tp);
  (void)partition_layers(config.model, schedule.stages, parse_partition_rule(config.partition));
}

}  // namespace

Schedule training_schedule(const TrainConfig& config) {
  Schedule schedule;
  if (config.schedule.ends_with(".csv")) {
    schedule = read_torch_csv(read_file(config.schedule), config.schedule);
  } else {
    const std::vector<EnvPipeStage> even(static_cast<std::size_t>(config.parallel.pp),
                                         {.forward_time_s = 1, .backward_time_s = 2, .extra_activations = {}});
    schedule = make_schedule({.name = config.schedule,
                              .ranks = config.parallel.pp,
                              .microbatches = config.microbatches,
                              .chunks = config.parallel.chunks,
                              .envpipe_stages = even});
  }
  validate(schedule);
  require_fits(schedule, config);
  require_divides(schedule, config);
  schedule = with_communication(schedule);
  if (schedule.rank_count() > 1) require_runnable(schedule, P2pGrouping::none);
  return schedule;
}

}  // namespace lowgear
