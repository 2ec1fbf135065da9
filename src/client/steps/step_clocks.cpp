#include "client/steps/step_clocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "base/core/error.h"
#include "planning/plan/plan_json.h"

namespace lowgear::client {
namespace {

constexpr int kMostLines = 20;
constexpr const char* kNotInTime = "it was not planned in time";
/// How often the thread looks whether a step has begun: the training thread wakes nobody.
constexpr std::chrono::milliseconds kLookPeriod{5};

/// One rank of the plan, with the clocks of `step`.
std::string plan_of_rank(const StepPlanning& planning, const steps::NextStep& step, int rank) {
  const schedule::PipelineDag& dag = planning.planner->dag();
  plan::Plan plan;
  plan.policy = "lowgear";
  plan.schedule = planning.schedule;
  plan.microbatches = dag.microbatches;
  plan.deadline_s = step.time_s;
  plan.time_s = step.replica_time_s;
  plan.clock_lead_s = planning.clock_lead_s;
  std::vector<plan::PlannedOp>& ops = plan.ranks.emplace_back();
  const auto begin_of = [&](int r) { return static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(r)]); };
  for (std::size_t op = begin_of(rank); op < begin_of(rank + 1); ++op) {
    const schedule::ComputeOp& unit = dag.ops[op];
    ops.push_back(
        {.stage = unit.stage, .kind = unit.kind, .microbatch = unit.microbatch, .clock_mhz = step.clocks_mhz[op]});
  }
  return plan::write_plan(plan);
}

}  // namespace

StepClocks::StepClocks(const BegunSteps& begun, StepClocksOptions options)
    : begun_(&begun), options_(std::move(options)) {
  if (options_.speaks && options_.planning.fit_error > steps::kLargeFitError) {
    fmt::print(stderr, "lowgear: warning: times by length are off by {:.0f} % (root mean square): record again\n",
               100 * options_.planning.fit_error);
  }
}

StepClocks::~StepClocks() { stop(); }

void StepClocks::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void StepClocks::plan_first() {
  const std::int64_t step = begun_->run().first;
  Made made = plan(step, lengths_of(step));
  if (!made.answer.refusal.empty()) throw Error(made.answer.refusal);
  say(step, made);
  made_[step] = std::move(made.prediction);
  begin();
}

void StepClocks::begin() {
  run_ = begun_->run();
  seen_ = run_.newest;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void StepClocks::lengths_change(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  ++changes_;
  lowest_told_ = std::min(step, lowest_told_.value_or(step));
  if (step > begun_->run().newest) made_.erase(step);
  woken_ = true;
  wake_.notify_all();
}

StepPrediction StepClocks::prediction(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  const auto found = made_.find(step);
  return found != made_.end() ? found->second : StepPrediction{0, kNotInTime};
}

std::string StepClocks::finish() {
  stop();
  count_begun();
  std::vector<std::string> reasons;
  const auto add = [&](std::int64_t steps, const char* what) {
    if (steps > 0) reasons.push_back(fmt::format("{} {}", steps, what));
  };
  add(untold_, "began before their lengths were told");
  add(late_, "were not planned in time");
  add(unplanned_, "could not be planned");
  return fmt::format("{}", fmt::join(reasons, ", "));
}

StepLengths StepClocks::lengths_of(std::int64_t step) const {
  try {
    return options_.lengths(step);
  } catch (const Error& error) {
    return {.state = StepLengths::State::invalid, .reason = error.what()};
  }
}

StepClocks::Made StepClocks::plan(std::int64_t step, const StepLengths& lengths) const {
  const steps::NextStepPlanner& planner = *options_.planning.planner;
  const int full_mhz = planner.full_clock_mhz(options_.pp_rank);
  Made made;
  steps::NextStep next;
  next.fault = lengths.reason;
  if (lengths.state == StepLengths::State::known) {
    try {
      next = planner.plan(lengths.amounts, options_.replica);
    } catch (const Error& error) {
      next.fault = error.what();
    }
  }
  const bool is_planned = next.fault.empty();
  made.is_of_all = !is_planned;
  if (!is_planned) next.clocks_mhz.assign(planner.dag().ops.size(), full_mhz);
  const auto iteration = static_cast<std::uint64_t>(step);
  try {
    made.answer = options_.offer({.plan_json = plan_of_rank(options_.planning, next, options_.pp_rank),
                                  .iteration = iteration,
                                  .full_from = is_planned ? iteration + 1 : iteration,
                                  .full_clock_mhz = full_mhz,
                                  .predicted_time_s = next.time_s});
  } catch (const Error& error) {
    made.answer = {error.what(), false};
  }
  made.prediction = {next.time_s, is_planned ? made.answer.refusal : next.fault};
  return made;
}

void StepClocks::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, kLookPeriod, [this] { return woken_; });
      woken_ = false;
    }
    count_begun();
    if (!stop.stop_requested()) plan_next();
  }
}

/// Steps that have begun since the last call.
void StepClocks::count_begun() {
  const BegunSteps::Run run = begun_->run();
  if (run_.goes_back_in(run)) {
    const std::lock_guard lock(mutex_);
    made_.clear();
    seen_ = run.first - 1;
  }
  run_ = run;
  for (std::int64_t step = std::max<std::int64_t>(seen_ + 1, run.first); step <= run.newest; ++step) count(step);
  seen_ = run.newest;
  const std::lock_guard lock(mutex_);
  made_.erase(made_.begin(), made_.lower_bound(run.newest - 1));
}

void StepClocks::count(std::int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    const auto made = made_.find(step);
    if (made != made_.end()) {
      unplanned_ += made->second.reason.empty() ? 0 : 1;
      return;
    }
  }
  const StepLengths lengths = lengths_of(step);
  const bool is_untold = lengths.state == StepLengths::State::awaited;
  ++(is_untold ? untold_ : late_);
  say(step, {.prediction = {0, is_untold ? lengths.reason : kNotInTime}, .answer = {}, .is_of_all = is_untold});
}

void StepClocks::plan_next() {
  std::int64_t next = seen_ + 1;
  std::uint64_t changes = 0;
  {
    const std::lock_guard lock(mutex_);
    // A job that goes on from a checkpoint begins with a later step.
    if (run_.is_empty() && lowest_told_) next = std::max(next, *lowest_told_);
    if (made_.contains(next)) return;
    changes = changes_;
  }
  const StepLengths lengths = lengths_of(next);
  if (lengths.state == StepLengths::State::awaited) return;
  Made made = plan(next, lengths);
  if (!made.answer.refusal.empty() && begun_->run().newest >= next) return;  // it counts as late
  {
    const std::lock_guard lock(mutex_);
    if (changes != changes_ && lengths_of(next).state != lengths.state) {
      woken_ = true;
      return;
    }
    made_[next] = made.prediction;
    made_.erase(made_.upper_bound(next), made_.end());  // the agent keeps one plan that waits
  }
  say(next, made);
}

/// A fault of the lengths is that of every rank: one reports it.
void StepClocks::say(std::int64_t step, const Made& made) {
  const auto& [refusal, has_lease] = made.answer;
  const std::string& reason = has_lease ? made.prediction.reason : refusal;
  const bool is_of_all = made.is_of_all && has_lease;
  if (reason.empty() || (is_of_all && !options_.speaks)) return;
  if (reason == said_ || lines_ > kMostLines) return;
  said_ = reason;
  const bool is_last = ++lines_ > kMostLines;
  const std::string where =
      is_of_all ? "" : fmt::format(" on pipeline rank {} of replica {}", options_.pp_rank, options_.replica);
  fmt::print(stderr, "{} {}{}: {}{}\n", options_.name(step), has_lease ? "runs at full clocks" : "has no plan", where,
             reason, is_last ? "; further ones are not reported" : "");
}

}  // namespace lowgear::client
