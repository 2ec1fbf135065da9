#include "control/server/perseus/lowgear.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/core/error.h"
#include "control/server/perseus/schedulers.h"
#include "planning/plan/perseus_plan.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/schedule/dag.h"

namespace lowgear {
namespace {

/// What one rank computes. Throws InputError unless there is one forward and one backward for every microbatch.
std::vector<Action> actions_of(const PerseusRankInfo& rank, int microbatches) {
  std::vector<Action> actions;
  int forwards = 0;
  int backwards = 0;
  for (const PerseusInstruction instruction : rank.pipe_schedule) {
    if (instruction == PerseusInstruction::forward) {
      actions.push_back({ActionKind::compute, OpKind::forward, rank.pp_rank, forwards++});
    } else if (instruction == PerseusInstruction::backward) {
      actions.push_back({ActionKind::compute, OpKind::backward, rank.pp_rank, backwards++});
    }
  }
  if (forwards == microbatches && backwards == microbatches) return actions;
  throw InputError(
      fmt::format("rank {} has {} forwards and {} backwards for {} microbatches; the scheduler Lowgear "
                  "needs one of each for every microbatch",
                  rank.rank, forwards, backwards, microbatches));
}

}  // namespace

Schedule pipeline_of(const PerseusLayout& layout) {
  Schedule schedule;
  schedule.name = "perseus";
  schedule.stages = layout.job.pp_degree;
  schedule.microbatches = layout.job.num_microbatches;
  schedule.ranks.resize(static_cast<std::size_t>(layout.job.pp_degree));
  for (const PerseusRankInfo& rank : layout.positions) {
    auto& actions = schedule.ranks.at(static_cast<std::size_t>(rank.pp_rank));
    if (actions.empty()) actions = actions_of(rank, layout.job.num_microbatches);
  }
  static_cast<void>(build_dag(schedule));
  return schedule;
}

LowgearScheduler::LowgearScheduler(const PerseusLayout& layout, const PerseusArguments& arguments,
                                   std::shared_ptr<Progress> progress)
    : layout_(layout),
      arguments_(arguments),
      progress_(std::move(progress)),
      pipeline_(pipeline_of(layout)),
      warmup_windows_(arguments.warmup_iters),
      profile_(layout, arguments.blocking_power_w) {
  const std::vector<int> states = profiled_states(layout, arguments.minimum_power_state);
  clocks_mhz_ = choose_clocks(states, states.back(), states.front(), arguments.clocks);
  if (clocks_mhz_.size() < static_cast<std::size_t>(kMinMeasuredClocks)) {
    throw InputError(fmt::format("{} clocks from {} MHz up are too few to plan with; at least {} are needed",
                                 clocks_mhz_.size(), arguments.minimum_power_state, kMinMeasuredClocks));
  }
}

PerseusStep LowgearScheduler::schedule() const {
  if (warmup_windows_ > 0) return uniform_schedule(layout_, layout_.power_states.front());
  if (plan_) return *plan_;
  return uniform_schedule(layout_, clocks_mhz_[next_]);
}

void LowgearScheduler::end_window(std::span<const PerseusWindow> window) {
  if (warmup_windows_ > 0) {
    --warmup_windows_;
  } else if (!plan_) {
    profile_.add(clocks_mhz_[next_++], window);
    if (next_ == clocks_mhz_.size()) make_plan();
  }
}

void LowgearScheduler::make_plan() {
  const std::vector<int> all_mhz = profiled_states(layout_, arguments_.minimum_power_state);
  const StageProfile profile = fit_few_clocks(profile_.stage_profile(), all_mhz).profile();
  std::vector<double> blocking_power_w;
  for (std::size_t stage = 0; stage < pipeline_.ranks.size(); ++stage) {
    blocking_power_w.push_back(profile_.blocking_power_w(stage));
  }
  PipelinePlanner planner(pipeline_, profile, blocking_power_w, {}, {}, progress_.get());
  const Plan plan = planner.plan(planner.fastest_s() * (1 + arguments_.slowdown_pct / 100));
  const PerseusPlan clocks = perseus_plan(planner.dag(), clocks_for(plan, planner.dag()));
  PerseusSchedule schedule;
  for (const PerseusRankInfo& rank : layout_.positions) {
    schedule.power_states.push_back(expand_clocks(rank, clocks.stages[static_cast<std::size_t>(rank.pp_rank)]));
  }
  plan_ = std::move(schedule);
  double blocking_j = 0;
  for (const double power_w : blocking_power_w) blocking_j += power_w * plan.time_s;
  plan_files_.push_back(
      {"freqs_pipeline_00000.py", write_perseus_plan(clocks, {0, 0, plan.energy_j - blocking_j, plan.energy_j})});
}

std::vector<PerseusFile> LowgearScheduler::files() const {
  if (next_ == 0) return {};
  std::vector<PerseusFile> files = {{perseus_profile_name(layout_.job), profile_.csv(PerseusMode::frequency)}};
  files.insert(files.end(), plan_files_.begin(), plan_files_.end());
  return files;
}

}  // namespace lowgear
