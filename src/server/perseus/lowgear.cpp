#include "server/perseus/lowgear.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/plausibility.h"
#include "planning/schedule/dag.h"
#include "rivals/formats/perseus_plan.h"
#include "server/perseus/schedulers.h"

namespace lowgear::server::perseus {

namespace {

using UnitOfWindow = std::pair<OpKind, std::optional<Unit> Window::*>;
constexpr std::array<UnitOfWindow, 2> kKinds = {
    {{OpKind::forward, &Window::forward}, {OpKind::backward, &Window::backward}}};

}  // namespace

Profile::Profile(const Layout& layout, std::vector<double> blocking_power_w)
    : layout_(layout), blocking_power_w_(std::move(blocking_power_w)) {
  const std::size_t given = blocking_power_w_.size();
  if (given > 1 && given != static_cast<std::size_t>(layout.job.pp_degree)) {
    throw InputError(fmt::format("blocking_power_w has {} numbers, and the job {} stages; give one for each, or one",
                                 given, layout.job.pp_degree));
  }
}

double Profile::blocking_power_w(std::size_t stage) const {
  return blocking_power_w_.size() == 1 ? blocking_power_w_.front() : blocking_power_w_.at(stage);
}

/// Mean of the ranks; empty unless it is known of each.
std::optional<double> Profile::Cell::energy_j() const {
  if (ranks_with_energy < ranks) return std::nullopt;
  return energy_sum_j / ranks;
}

/// Mean power during forwards and backwards, from the energy of whole iterations; empty without blocking power.
std::optional<double> Profile::compute_power_w(std::size_t position, const Window& window) const {
  if (blocking_power_w_.empty()) return std::nullopt;
  const RankInfo& rank = layout_.positions[position];
  double compute_s = 0;
  for (const auto& [kind, unit] : kKinds) compute_s += (window.*unit)->per_iteration * (window.*unit)->time_s;
  const double waiting_s = std::max(window.iteration_time_s - compute_s, 0.0);
  const double waiting_j = waiting_s * blocking_power_w(static_cast<std::size_t>(rank.pp_rank));
  if (compute_s <= 0 || window.iteration_energy_j <= waiting_j) {
    throw InputError(
        fmt::format("rank {} used {} J in an iteration and would have used {} J by waiting alone; set blocking_power_w "
                    "to the power of a waiting GPU",
                    rank.rank, window.iteration_energy_j, waiting_j));
  }
  return (window.iteration_energy_j - waiting_j) / compute_s;
}

void Profile::add(int power_state, std::span<const Window> window) {
  for (std::size_t position = 0; position < window.size(); ++position) {
    const RankInfo& rank = layout_.positions[position];
    const Window& measured = window[position];
    if (!measured.forward || !measured.backward) {
      throw InputError(
          fmt::format("rank {} reported no times of forwards and backwards; a profile is made of them", rank.rank));
    }
    const bool has_energies = measured.forward->energy_j && measured.backward->energy_j;
    const std::optional<double> power_w = has_energies ? std::nullopt : compute_power_w(position, measured);
    for (const auto& [kind, member] : kKinds) {
      const Unit& unit = *(measured.*member);
      Cell& cell = cells_[{rank.pp_rank, kind, power_state}];
      cell.time_s = std::max(cell.time_s, unit.time_s);
      ++cell.ranks;
      if (!has_energies && !power_w) continue;
      cell.energy_sum_j += power_w ? *power_w * unit.time_s : *unit.energy_j;
      ++cell.ranks_with_energy;
    }
  }
}

profile::StageProfile Profile::stage_profile() const {
  profile::StageProfile profile(layout_.job.pp_degree);
  for (const auto& [key, cell] : cells_) {
    const auto& [stage, kind, state] = key;
    const std::optional<double> energy_j = cell.energy_j();
    if (!energy_j) throw InputError(fmt::format("stage {}: the energy of its {}s is not known", stage, name(kind)));
    const EnergyVerdict verdict = check_energy({.energy_j = *energy_j, .time_s = cell.time_s});
    if (!verdict.usable()) {
      throw InputError(
          fmt::format("stage {}: its {} at {} {}; profile again", stage, name(kind), state, verdict.reason));
    }
    profile.add(stage, kind, {state, cell.time_s, *energy_j});
  }
  return profile;
}

std::string Profile::csv(Mode mode) const {
  std::string text = fmt::format("stage,instruction,{},time,energy\n", name(mode));
  for (const auto& [key, cell] : cells_) {
    const auto& [stage, kind, state] = key;
    const std::optional<double> energy_j = cell.energy_j();
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{}\n", stage, name(kind), state, cell.time_s,
                   energy_j ? fmt::format("{}", *energy_j) : "");
  }
  return text;
}

InstructionProfiler::InstructionProfiler(const Layout& layout, const Settings& settings)
    : layout_(layout),
      mode_(settings.mode),
      states_(profiled_states(layout, settings.arguments.minimum_power_state)),
      profile_(layout, settings.arguments.blocking_power_w) {}

Step InstructionProfiler::schedule() const {
  if (warmup_windows_ > 0) return uniform_schedule(layout_, layout_.power_states.front());
  if (next_ < states_.size()) return uniform_schedule(layout_, states_[next_]);
  return Stop{"[profiling-done] every power state is profiled"};
}

void InstructionProfiler::end_window(std::span<const Window> window) {
  if (warmup_windows_ > 0) {
    --warmup_windows_;
  } else if (next_ < states_.size()) {
    profile_.add(states_[next_++], window);
  }
}

std::vector<File> InstructionProfiler::files() const {
  if (next_ == 0) return {};
  return {{perseus_profile_name(layout_.job), profile_.csv(mode_)}};
}

std::vector<int> profiled_states(const Layout& layout, int minimum_power_state) {
  std::vector<int> states;
  std::ranges::copy_if(layout.power_states, std::back_inserter(states),
                       [minimum_power_state](int state) { return state >= minimum_power_state; });
  if (!states.empty()) return states;
  throw InputError(fmt::format("the highest power state is {}, below minimum_power_state {}; lower that",
                               layout.power_states.front(), minimum_power_state));
}

namespace {

/// What one rank computes. Throws InputError unless there is one forward and one backward for every microbatch.
std::vector<schedule::Action> actions_of(const RankInfo& rank, int microbatches) {
  std::vector<schedule::Action> actions;
  int forwards = 0;
  int backwards = 0;
  for (const Instruction instruction : rank.pipe_schedule) {
    if (instruction == Instruction::forward) {
      actions.push_back({schedule::ActionKind::compute, OpKind::forward, rank.pp_rank, forwards++});
    } else if (instruction == Instruction::backward) {
      actions.push_back({schedule::ActionKind::compute, OpKind::backward, rank.pp_rank, backwards++});
    }
  }
  if (forwards == microbatches && backwards == microbatches) return actions;
  throw InputError(
      fmt::format("rank {} has {} forwards and {} backwards for {} microbatches; the scheduler Lowgear "
                  "needs one of each for every microbatch",
                  rank.rank, forwards, backwards, microbatches));
}

}  // namespace

schedule::Schedule pipeline_of(const Layout& layout) {
  schedule::Schedule schedule;
  schedule.name = "perseus";
  schedule.stages = layout.job.pp_degree;
  schedule.microbatches = layout.job.num_microbatches;
  schedule.ranks.resize(static_cast<std::size_t>(layout.job.pp_degree));
  for (const RankInfo& rank : layout.positions) {
    auto& actions = schedule.ranks.at(static_cast<std::size_t>(rank.pp_rank));
    if (actions.empty()) actions = actions_of(rank, layout.job.num_microbatches);
  }
  static_cast<void>(build_dag(schedule));
  return schedule;
}

LowgearScheduler::LowgearScheduler(const Layout& layout, const Arguments& arguments, std::shared_ptr<Progress> progress)
    : layout_(layout),
      arguments_(arguments),
      progress_(std::move(progress)),
      pipeline_(pipeline_of(layout)),
      warmup_windows_(arguments.warmup_iters),
      profile_(layout, arguments.blocking_power_w) {
  const std::vector<int> states = profiled_states(layout, arguments.minimum_power_state);
  clocks_mhz_ = profile::choose_clocks(states, states.back(), states.front(), arguments.clocks);
  if (clocks_mhz_.size() < static_cast<std::size_t>(profile::kMinMeasuredClocks)) {
    throw InputError(fmt::format("{} clocks from {} MHz up are too few to plan with; at least {} are needed",
                                 clocks_mhz_.size(), arguments.minimum_power_state, profile::kMinMeasuredClocks));
  }
}

Step LowgearScheduler::schedule() const {
  if (warmup_windows_ > 0) return uniform_schedule(layout_, layout_.power_states.front());
  if (plan_) return *plan_;
  return uniform_schedule(layout_, clocks_mhz_[next_]);
}

void LowgearScheduler::end_window(std::span<const Window> window) {
  if (warmup_windows_ > 0) {
    --warmup_windows_;
  } else if (!plan_) {
    profile_.add(clocks_mhz_[next_++], window);
    if (next_ == clocks_mhz_.size()) make_plan();
  }
}

void LowgearScheduler::make_plan() {
  const std::vector<int> all_mhz = profiled_states(layout_, arguments_.minimum_power_state);
  const profile::StageProfile measured = profile_.stage_profile();
  std::vector<double> blocking_power_w;
  for (std::size_t stage = 0; stage < pipeline_.ranks.size(); ++stage) {
    blocking_power_w.push_back(profile_.blocking_power_w(stage));
  }
  doubts_ = profile_doubts(
      measured,
      {.source = "the job's profile", .blocking_power_w = blocking_power_w, .units = profile::ImpossibleUnits::accept});
  if (!doubts_.empty()) plan_files_.push_back({"warnings.txt", fmt::format("{}\n", fmt::join(doubts_, "\n"))});
  const profile::StageProfile profile = fit_few_clocks(measured, all_mhz).profile();
  planner::PipelinePlanner planner(pipeline_, profile, blocking_power_w, {}, {}, progress_.get());
  const plan::Plan plan = planner.plan(planner.fastest_s() * (1 + arguments_.slowdown_pct / 100));
  const formats::PerseusPlan clocks = formats::perseus_plan(planner.dag(), clocks_for(plan, planner.dag()));
  Schedule schedule;
  for (const RankInfo& rank : layout_.positions) {
    schedule.power_states.push_back(expand_clocks(rank, clocks.stages[static_cast<std::size_t>(rank.pp_rank)]));
  }
  plan_ = std::move(schedule);
  double blocking_j = 0;
  for (const double power_w : blocking_power_w) blocking_j += power_w * plan.time_s;
  plan_files_.push_back(
      {"freqs_pipeline_00000.py", write_perseus_plan(clocks, {0, 0, plan.energy_j - blocking_j, plan.energy_j})});
}

std::vector<File> LowgearScheduler::files() const {
  if (next_ == 0) return {};
  std::vector<File> files = {{perseus_profile_name(layout_.job), profile_.csv(Mode::frequency)}};
  files.insert(files.end(), plan_files_.begin(), plan_files_.end());
  return files;
}

}  // namespace lowgear::server::perseus
