#include "training/trainer/run/step_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "base/core/error.h"
#include "planning/plan/plan_json.h"

namespace lowgear::trainer {
namespace {

constexpr int kMostLines = 20;
constexpr const char* kNotInTime = "it was not planned in time";

/// One rank of the plan, with the clocks of `step`.
std::string plan_of_rank(const launcher::TrainConfig& config, const schedule::PipelineDag& dag,
                         const steps::NextStep& step, int rank, double clock_lead_s) {
  plan::Plan plan;
  plan.policy = "lowgear";
  plan.schedule = config.schedule;
  plan.microbatches = config.microbatches;
  plan.deadline_s = step.time_s;
  plan.time_s = step.replica_time_s;
  plan.clock_lead_s = clock_lead_s;
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

StepClocks::StepClocks(const launcher::TrainConfig& config, const TrainingData& data, client::Client& client,
                       const launcher::RankPlace& place, int rank)
    : config_(&config),
      data_(&data),
      client_(&client),
      place_(place),
      rank_(rank),
      clocks_(launcher::read_step_clocks(config)) {}

StepClocks::~StepClocks() { stop(); }

void StepClocks::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void StepClocks::begin(std::int64_t first_step) {
  if (rank_ == 0 && clocks_.fit_error > steps::kLargeFitError) {
    fmt::print(stderr, "warning: energy.steps: times by length are off by {:.0f} % (root mean square): record again\n",
               100 * clocks_.fit_error);
  }
  Made made = plan(first_step);
  if (!made.answer.refusal.empty()) throw Error("energy.steps: " + made.answer.refusal);
  say(first_step, made);
  newest_ = std::move(made.prediction);
  planned_ = wanted_ = first_step;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void StepClocks::step_begins(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  begun_ = step;
  if (step + 1 >= config_->steps) return;
  wanted_ = step + 1;
  asked_.notify_all();
}

StepPrediction StepClocks::prediction(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  if (step == planned_) return newest_;
  return step == planned_ - 1 ? before_ : StepPrediction{0, kNotInTime};
}

void StepClocks::finish() {
  stop();
  const std::int64_t skipped = skipped_ + std::max<std::int64_t>(0, begun_ - planned_);
  if (skipped > 0) fmt::print(stderr, "{} steps had no clocks of their own: {}\n", skipped, kNotInTime);
}

StepClocks::Made StepClocks::plan(std::int64_t step) const {
  const steps::NextStepPlanner& planner = *clocks_.planner;
  const int full_mhz = planner.full_clock_mhz(place_.pp);
  Made made;
  steps::NextStep next;
  try {
    next = planner.plan(data_->amounts(step), place_.dp);
    made.is_of_all = !next.fault.empty();
  } catch (const Error& error) {
    next.fault = error.what();
  }
  const bool is_planned = next.fault.empty();
  if (!is_planned) next.clocks_mhz.assign(planner.dag().ops.size(), full_mhz);
  const auto iteration = static_cast<std::uint64_t>(step);
  try {
    made.answer = client_->plan_iteration(
        {.plan_json = plan_of_rank(*config_, planner.dag(), next, place_.pp, clocks_.clock_lead_s),
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
  while (true) {
    std::int64_t step = 0;
    {
      std::unique_lock lock(mutex_);
      if (!asked_.wait(lock, stop, [this] { return wanted_ > planned_; })) return;
      step = wanted_;
    }
    Made made = plan(step);
    say(step, made);
    const std::lock_guard lock(mutex_);
    skipped_ += step - planned_ - 1;
    before_ = step == planned_ + 1 ? std::move(newest_) : StepPrediction{0, kNotInTime};
    newest_ = std::move(made.prediction);
    planned_ = step;
  }
}

/// A fault of the lengths is that of every rank: the first one reports it.
void StepClocks::say(std::int64_t step, const Made& made) {
  const auto& [refusal, has_lease] = made.answer;
  const std::string& reason = has_lease ? made.prediction.reason : refusal;
  if (reason.empty() || (made.is_of_all && has_lease && rank_ != 0) || lines_ > kMostLines) return;
  const bool is_last = ++lines_ > kMostLines;
  fmt::print(stderr, "step {} {}: {}{}\n", step + 1, has_lease ? "runs at full clocks" : "has no plan", reason,
             is_last ? "; further ones are not reported" : "");
}

}  // namespace lowgear::trainer
