#include "server/planning/planning_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/torch_csv.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"

namespace lowgear::server {

namespace {

constexpr const char* kFormat = "lowgear.measured_profile/1";

/// The same cell on several ranks.
class CellGroup {
 public:
  void add(int rank, const protocol::ProfileCell& cell) { by_rank_.insert_or_assign(rank, cell); }

  [[nodiscard]] protocol::ProfileCell merged() const {
    protocol::ProfileCell whole;
    double squared_errors = 0;
    for (const auto& [rank, cell] : by_rank_) {
      const long long units = whole.units + cell.units;
      const double energy_j = whole.energy_j + cell.energy_j;
      if (cell.time_s > whole.time_s) whole = cell;
      whole.units = std::min<long long>(units, protocol::kMaxCellUnits);
      whole.energy_j = energy_j;
      squared_errors += cell.energy_error_j * cell.energy_error_j;
    }
    const auto ranks = static_cast<double>(by_rank_.size());
    whole.energy_j /= ranks;
    whole.energy_error_j = std::sqrt(squared_errors) / ranks;
    return whole;
  }

 private:
  std::map<int, protocol::ProfileCell> by_rank_;
};

std::vector<protocol::BlockingCell> merge_blocking(std::span<const protocol::RankCells> ranks, int stages) {
  std::vector<std::vector<protocol::BlockingCell>> by_stage(static_cast<std::size_t>(stages));
  for (const protocol::RankCells& rank : ranks) {
    for (const protocol::BlockingCell& cell : rank.blocking)
      by_stage.at(static_cast<std::size_t>(cell.stage)).push_back(cell);
  }
  std::vector<protocol::BlockingCell> merged;
  for (int stage = 0; stage < stages; ++stage) {
    const std::vector<protocol::BlockingCell>& cells = by_stage[static_cast<std::size_t>(stage)];
    if (cells.empty()) throw InputError(fmt::format("no rank of stage {} has measured its blocking power", stage));
    protocol::BlockingCell whole{.stage = stage};
    double squared_errors = 0;
    for (const protocol::BlockingCell& cell : cells) {
      whole.power_w += cell.power_w;
      squared_errors += cell.error_w * cell.error_w;
    }
    whole.power_w /= static_cast<double>(cells.size());
    whole.error_w = std::sqrt(squared_errors) / static_cast<double>(cells.size());
    merged.push_back(whole);
  }
  return merged;
}

}  // namespace

MeasuredProfile merge_cells(std::span<const protocol::RankCells> ranks, int stages) {
  std::map<std::tuple<int, OpKind, int>, CellGroup> groups;
  for (const protocol::RankCells& rank : ranks) {
    for (const protocol::ProfileCell& cell : rank.cells) {
      groups[{cell.stage, cell.kind, -cell.clock_mhz}].add(rank.rank, cell);
    }
  }
  if (groups.size() > protocol::kMaxCells) {
    throw InputError(fmt::format("a profile of {} cells, of {} at most", groups.size(), protocol::kMaxCells));
  }
  MeasuredProfile profile;
  for (const auto& [key, group] : groups) profile.cells.push_back(group.merged());
  profile.blocking = merge_blocking(ranks, stages);
  return profile;
}

std::string write_measured_profile(const MeasuredProfile& profile) {
  Json document = {{"format", kFormat}, {"simulated", profile.simulated}};
  add_measured_cells(document, profile.cells, profile.blocking);
  return document.dump();
}

MeasuredProfile read_measured_profile(std::string_view text) {
  const Json document = parse_json(text, "profile");
  const JsonView view(document, "profile");
  require_format(view, kFormat);
  const bool simulated = view.at("simulated").boolean();
  protocol::MeasuredCells measured = protocol::read_measured_cells(view, profile::kMaxStages);
  return {.cells = std::move(measured.cells), .blocking = std::move(measured.blocking), .simulated = simulated};
}

namespace {

schedule::Schedule schedule_called(std::string_view name, const protocol::JobSpec& spec) {
  return schedule::make_schedule({.name = std::string(name),
                                  .ranks = spec.parallel.pp,
                                  .microbatches = spec.microbatches,
                                  .chunks = spec.parallel.chunks,
                                  .envpipe_stages = policies::stages_without_profile(spec.parallel.pp)});
}

/// That of a schedule with the same order on each rank, if there is one.
std::string name_of(const schedule::Schedule& own, const protocol::JobSpec& spec) {
  for (const schedule::ScheduleGenerator& generator : schedule::schedule_generators()) {
    try {
      if (schedule_called(generator.name, spec).ranks == own.ranks) return std::string(generator.name);
    } catch (const InputError&) {  // it does not exist in these sizes
    }
  }
  return std::string(kOwnSchedule);
}

schedule::Schedule generated(const protocol::JobSpec& spec) {
  if (spec.schedule_is_csv) return schedule::read_torch_csv(spec.schedule, "schedule.csv");
  if (!spec.early_forwards.empty()) return schedule::envpipe_schedule(spec.microbatches, spec.early_forwards);
  return schedule_called(spec.schedule, spec);
}

}  // namespace

std::vector<int> early_forwards(const protocol::JobSpec& spec) {
  if (spec.schedule_is_csv || spec.schedule != "envpipe") return {};
  return spec.early_forwards.empty()
             ? envpipe_extra_forwards(spec.microbatches, policies::stages_without_profile(spec.parallel.pp))
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
  if (spec.schedule_is_csv) schedule.name = name_of(schedule, spec);
  return schedule;
}

}  // namespace lowgear::server
