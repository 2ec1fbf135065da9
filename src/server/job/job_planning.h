#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/core/backoff.h"
#include "server/job/plan_version.h"
#include "server/planning/planning_service.h"

namespace lowgear::server {

/// The tasks and answers of planning for a job.
class JobPlanning {
 public:
  /// Plans are made from this model from now on.
  void use(std::shared_ptr<const PipelineModel> model) { model_ = std::move(model); }
  /// There is no profile to plan from any more, nor what was planned from it.
  void drop_model();
  /// Null: the job has no profile to plan from.
  [[nodiscard]] const std::shared_ptr<const PipelineModel>& model() const { return model_; }

  /// Makes a task the newest one: answers to older ones are out of date.
  [[nodiscard]] PlanningTask ask(PlanningTask task);
  /// Answers to all tasks so far are out of date.
  void withdraw() { ++serial_; }
  /// Number of the newest task.
  [[nodiscard]] std::uint64_t serial() const { return serial_; }
  /// The job follows this plan. Returns whether no plan so far had its doubts: plans of one profile alternate between a
  /// few.
  [[nodiscard]] bool follow(const PlannedJob& planned);
  /// Why figures of the plan that is followed may be wrong; empty: nothing says so.
  [[nodiscard]] const std::string& doubts() const { return doubts_; }
  /// Time from planning that has failed to the next attempt.
  [[nodiscard]] double next_retry_s() { return backoff_.next(); }

  /// (time_s, energy_j) of one pipeline
  [[nodiscard]] const std::vector<std::pair<double, double>>& frontier() const { return frontier_; }
  /// By the last plan that was followed, in this process.
  [[nodiscard]] const api::PlannedPower& power() const { return power_; }

 private:
  static constexpr std::size_t kMostDoubts = 100;

  std::shared_ptr<const PipelineModel> model_;
  std::uint64_t serial_ = 0;
  std::string doubts_;
  std::set<std::string> known_doubts_;
  Backoff<double> backoff_{60, 3'600};  ///< seconds
  std::vector<std::pair<double, double>> frontier_;
  api::PlannedPower power_;
};

/// The answer's plan as ranks follow it.
[[nodiscard]] PlanVersion training_plan(const PlanningAnswer& answer);
[[nodiscard]] bool same_clocks(const PlanVersion& version, const JobPlan& plan);

}  // namespace lowgear::server
