#include "server/job/profiling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "planning/profile/few_clock_fit.h"
#include "server/store/store.h"

namespace lowgear::server {

namespace {

bool is_same_cell(const protocol::ProfileCell& a, const protocol::ProfileCell& b) {
  return a.stage == b.stage && a.kind == b.kind && a.clock_mhz == b.clock_mhz;
}

template <typename Cell, typename IsSame>
void put_cell(std::vector<Cell>& cells, const Cell& newer, IsSame is_same) {
  const auto known = std::ranges::find_if(cells, [&](const Cell& cell) { return is_same(cell, newer); });
  if (known == cells.end()) {
    cells.push_back(newer);
  } else {
    *known = newer;
  }
}

}  // namespace

void SweepCells::put(const protocol::RankCells& cells) {
  const auto [known, is_first] = by_rank_.try_emplace(cells.rank, cells);
  if (is_first) return;
  for (const protocol::ProfileCell& cell : cells.cells) put_cell(known->second.cells, cell, is_same_cell);
  for (const protocol::BlockingCell& cell : cells.blocking) {
    put_cell(known->second.blocking, cell, [](const auto& a, const auto& b) { return a.stage == b.stage; });
  }
}

std::vector<protocol::RankCells> SweepCells::all() const {
  std::vector<protocol::RankCells> all;
  all.reserve(by_rank_.size());
  for (const auto& [rank, cells] : by_rank_) all.push_back(cells);
  return all;
}

std::size_t SweepCells::clocks() const {
  std::set<int> clocks;
  for (const auto& [rank, posted] : by_rank_) {
    for (const protocol::ProfileCell& cell : posted.cells) clocks.insert(cell.clock_mhz);
  }
  return clocks.size();
}

std::vector<int> SweepCells::missing(const std::vector<int>& clocks_mhz) const {
  std::map<std::pair<int, OpKind>, std::set<int>> clocks_of;
  for (const auto& [rank, posted] : by_rank_) {
    for (const protocol::ProfileCell& cell : posted.cells) clocks_of[{cell.stage, cell.kind}].insert(cell.clock_mhz);
  }
  std::vector<int> missing;
  for (const int clock_mhz : clocks_mhz) {
    const bool everywhere =
        std::ranges::all_of(clocks_of, [&](const auto& cell) { return cell.second.contains(clock_mhz); });
    if (!everywhere || clocks_of.empty()) missing.push_back(clock_mhz);
  }
  return missing;
}

void TrialSweep::want(std::vector<int> clocks_mhz) {
  round_.wanted_mhz = std::move(clocks_mhz);
  round_.attempts = 0;
  ++rounds_;
}

void TrialSweep::begin(int plan_version, std::int64_t end_iteration, double now_s) {
  round_.plan_version = plan_version;
  round_.end_iteration = end_iteration;
  round_.begun_s = now_s;
  ++round_.attempts;
  if (rounds_ <= 1 || !first_round_) first_round_ = round_;
  posted_.clear();
  for (const auto& [version, rank] : seen_) {
    if (version == plan_version) posted_.insert(rank);
  }
}

bool TrialSweep::add(const protocol::RankCells& cells) {
  if (first_version_ == 0 || cells.plan_version < first_version_) return false;
  if (!seen_.insert({cells.plan_version, cells.rank}).second) return false;
  if (cells.plan_version == round_.plan_version) posted_.insert(cells.rank);
  absent_.erase(cells.rank);
  measured_.put(cells);
  return true;
}

namespace {

/// A driver takes some 25 ms to change a clock; where a job says more, that counts.
constexpr double kSettleS = 0.1;
constexpr double kSettleLatencies = 2;
/// Lowest clock that is tried out, as a share of the highest: below, units take long and save nothing.
constexpr double kLowestClockShare = 0.6;

TrialOptions trial_options(const protocol::JobSpec& spec, const TrialBudget& budget) {
  TrialOptions options;
  options.steepness = budget.steepness();
  options.iterations = spec.profiling->iterations;
  options.settle_iterations = spec.profiling->settle_iterations;
  options.settle_s = std::max(kSettleS, kSettleLatencies * spec.switch_latency_ms / 1e3);
  return options;
}

}  // namespace

std::string text_of_clocks(const std::vector<int>& clocks_mhz) {
  return fmt::format("{} MHz", fmt::join(clocks_mhz, ", "));
}

void Profiling::begin(int first_version) {
  is_judging_ = false;
  sweep_ = TrialSweep(first_version);
}

void Profiling::allow(const protocol::JobSpec& spec, const IterationMeans& baseline) {
  const protocol::JobProfiling& wanted = *spec.profiling;
  budget_ =
      TrialBudget(wanted.allowance_pct / 100 * wanted.allowance_iterations * baseline.time_s, budget_.steepness());
}

std::vector<int> Profiling::first_clocks(const protocol::JobSpec& spec, const std::vector<int>& clocks_mhz,
                                         double full_clock_time_s) const {
  const protocol::JobProfiling& wanted = *spec.profiling;
  const int full_mhz = clocks_mhz.front();
  const int lowest_mhz = wanted.min_mhz.value_or(static_cast<int>(std::floor(kLowestClockShare * full_mhz)));
  std::vector<int> first = affordable_clocks(clocks_mhz, lowest_mhz, wanted.max_mhz.value_or(full_mhz),
                                             std::min(wanted.clocks, static_cast<int>(clocks_mhz.size())),
                                             full_clock_time_s, budget_.left_s(), trial_options(spec, budget_));
  if (first.empty()) {
    throw InputError(fmt::format(
        "trying {} clocks takes more than the {:.3g} s that profiling may cost: raise allowance_pct of the job's "
        "profile",
        profile::kMinMeasuredClocks, budget_.left_s()));
  }
  // The plan's own clock is measured between the trials.
  if (first.front() != full_mhz) first.insert(first.begin(), full_mhz);
  return first;
}

bool Profiling::add_trials(PlanVersion& version, const protocol::JobSpec& spec, const std::vector<int>& clocks_mhz,
                           const FullClock& full, std::string_view why) const {
  const TrialOptions options = trial_options(spec, budget_);
  std::vector<int> affordable_mhz = clocks_mhz;
  std::vector<plan::ClockTrial> trials;
  // The lowest ones cost most.
  for (; trials.empty() && !affordable_mhz.empty(); affordable_mhz.erase(std::ranges::min_element(affordable_mhz))) {
    trials = plan_trials(affordable_mhz, full.mhz, full.time_s, budget_.left_s(), options);
  }
  if (trials.empty()) return false;
  std::vector<int> tried_mhz;
  for (const plan::ClockTrial& trial : trials) tried_mhz.push_back(trial.clock_mhz);
  version.reason = fmt::format("tries {} in single iterations{}", text_of_clocks(tried_mhz), why);
  version.settle_iterations = options.settle_iterations;
  version.settle_s = options.settle_s;
  version.trials = std::move(trials);
  version.sweep = sweep_.first_version();
  return true;
}

bool Profiling::spend(const PlanVersion& version, const TrialIteration& iteration, const FullClock& full) {
  budget_.spend(iteration.time_s, full.time_s);
  const auto trial = std::ranges::find_if(version.trials, [&](const plan::ClockTrial& each) {
    return iteration.number >= each.first_iteration && iteration.number < each.end_iteration();
  });
  TrialOptions options;
  options.settle_iterations = version.settle_iterations;
  options.settle_s = version.settle_s;
  if (trial != version.trials.end() &&
      iteration.number >= trial->first_iteration + settling_iterations(full.time_s, options)) {
    budget_.learn(static_cast<double>(trial->clock_mhz) / full.mhz, iteration.time_s / full.time_s);
  }
  return expected_cost_s(version.trials, iteration.number + 1, full.mhz, full.time_s, budget_.steepness()) <=
         budget_.left_s();
}

void Profiling::merge(int stages, bool simulated) {
  MeasuredProfile profile = merge_cells(sweep_.measured().all(), stages);
  profile.simulated = simulated;
  own_ = std::make_shared<const MeasuredProfile>(std::move(profile));
}

void Profiling::restore(const JsonView& state, const protocol::JobSpec& spec,
                        const std::optional<IterationMeans>& baseline) {
  constexpr std::string_view kWanted = "wanted_clocks_mhz";
  const bool names_first = has_value(state, "sweep_first_version");
  const int first_version = names_first ? state.at("sweep_first_version").integer_in(0, kMaxStoredNumber) : 0;
  if (!state.has(kWanted)) {  // of a server that measured one clock after the other
    sweep_ = TrialSweep(std::max(first_version, 1));
    return;
  }
  if (first_version == 0) return;
  sweep_ = TrialSweep(first_version);
  const JsonView wanted = state.at(kWanted);
  std::vector<int> clocks_mhz;
  for (std::size_t i = 0; i < wanted.size(); ++i) clocks_mhz.push_back(wanted.at(i).integer_in(1, kMaxStoredNumber));
  if (!clocks_mhz.empty()) sweep_.want(std::move(clocks_mhz));
  if (!baseline || !spec.profiling) return;
  if (state.has("trials_steepness")) budget_ = TrialBudget(0, state.at("trials_steepness").number());
  allow(spec, *baseline);
  budget_.spend(state.at("trials_cost_s").number(), 0);
}

void Profiling::resume_version(const JsonView& state, double now_s) {
  if (sweep_.rounds() == 0) return;
  sweep_.begin(state.at("sweep_version").integer_in(0, kMaxStoredNumber), state.at("sweep_end_iteration").integer(),
               now_s);
}

void Profiling::write_state(Json& state) const {
  state["wanted_clocks_mhz"] = sweep_.round().wanted_mhz;
  state["sweep_first_version"] = sweep_.first_version();
  state["sweep_version"] = sweep_.round().plan_version;
  state["sweep_end_iteration"] = sweep_.round().end_iteration;
  state["trials_cost_s"] = budget_.spent_s();
  state["trials_steepness"] = budget_.steepness();
}

}  // namespace lowgear::server
