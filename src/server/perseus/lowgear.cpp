#include "server/perseus/lowgear.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

#include "base/core/error.h"
#include "planning/plan/perseus_plan.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/plausibility.h"
#include "planning/schedule/dag.h"
#include "server/perseus/schedulers.h"

namespace lowgear::server::perseus {
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
  doubts_ = profile_doubts(measured, {.source = "the job's profile", .blocking_power_w = blocking_power_w});
  if (!doubts_.empty()) plan_files_.push_back({"warnings.txt", fmt::format("{}\n", fmt::join(doubts_, "\n"))});
  const profile::StageProfile profile = fit_few_clocks(measured, all_mhz).profile();
  planner::PipelinePlanner planner(pipeline_, profile, blocking_power_w, {}, {}, progress_.get());
  const plan::Plan plan = planner.plan(planner.fastest_s() * (1 + arguments_.slowdown_pct / 100));
  const plan::PerseusPlan clocks = plan::perseus_plan(planner.dag(), clocks_for(plan, planner.dag()));
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
