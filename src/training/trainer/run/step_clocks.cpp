#include "training/trainer/run/step_clocks.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <utility>

#include "base/core/error.h"
#include "planning/plan/plan_json.h"

namespace lowgear::trainer {
namespace {

constexpr int kMostLines = 20;

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

StepClocks::~StepClocks() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void StepClocks::begin(std::int64_t first_step) {
  newest_ = plan(first_step);
  planned_ = wanted_ = first_step;
  if (!newest_.reason.empty() && newest_.time_s > 0) throw Error("energy.steps: " + newest_.reason);
  say(first_step, newest_);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void StepClocks::step_begins(std::int64_t step) {
  if (step + 1 >= config_->steps) return;
  const std::lock_guard lock(mutex_);
  wanted_ = step + 1;
  asked_.notify_all();
}

std::optional<StepPrediction> StepClocks::prediction(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  if (step == planned_) return newest_;
  return step == planned_ - 1 ? std::optional(before_) : std::nullopt;
}

StepPrediction StepClocks::plan(std::int64_t step) const {
  try {
    const steps::NextStep next = clocks_.planner->plan(data_->amounts(step), place_.dp);
    if (!next.fault.empty()) return {0, next.fault};
    std::string text = plan_of_rank(*config_, clocks_.planner->dag(), next, place_.pp, clocks_.clock_lead_s);
    return {next.time_s, client_->plan_iteration(std::move(text), static_cast<std::uint64_t>(step),
                                                 clocks_.planner->full_clock_mhz(place_.pp))};
  } catch (const Error& error) {
    return {0, error.what()};
  }
}

void StepClocks::run(const std::stop_token& stop) {
  while (true) {
    std::int64_t step = 0;
    {
      std::unique_lock lock(mutex_);
      if (!asked_.wait(lock, stop, [this] { return wanted_ > planned_; })) return;
      step = wanted_;
    }
    StepPrediction made = plan(step);
    say(step, made);
    const std::lock_guard lock(mutex_);
    before_ = step == planned_ + 1 ? std::move(newest_) : StepPrediction{0, "it was not planned in time"};
    newest_ = std::move(made);
    planned_ = step;
  }
}

/// A fault of the lengths is that of every rank: the first one reports it.
void StepClocks::say(std::int64_t step, const StepPrediction& made) {
  const bool is_of_all = made.time_s == 0;
  if (made.reason.empty() || (is_of_all && rank_ != 0) || lines_ > kMostLines) return;
  const bool is_last = ++lines_ > kMostLines;
  fmt::print(stderr, "{}step {} runs at full clocks: {}{}\n", is_of_all ? "" : fmt::format("rank {}: ", rank_),
             step + 1, made.reason, is_last ? "; further ones are not reported" : "");
}

}  // namespace lowgear::trainer
