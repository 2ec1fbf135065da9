#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/planning/measured_job.h"

namespace lowgear::server {

/// A request to a planner.
struct PlanningTask {
  enum class Kind : unsigned char { judge_profile, plan };
  Kind kind = Kind::plan;
  std::string job;
  std::uint64_t serial = 0;  ///< of the job's tasks: answers to older ones are out of date
  std::shared_ptr<const PipelineModel> model;
  PlanningConditions conditions;
  std::string reason;
  bool quick_first = false;  ///< a preliminary answer within milliseconds is welcome
};

struct PlanningAnswer {
  std::uint64_t serial = 0;
  std::string reason;
  bool preliminary = false;  ///< a better one follows
  double seconds = 0;        ///< of planning
  std::optional<PlannedJob> planned;
  std::optional<ProfileVerdict> verdict;  ///< in place of a plan: the profile contradicts what was measured
  std::string error;                      ///< why there is neither
};

/// Plans outside of the server's thread.
class PlanningService {
 public:
  virtual ~PlanningService() = default;
  using Done = std::function<void(PlanningAnswer)>;
  /// Calls `done` on the server's thread: once, or twice where a preliminary answer comes first. Of the tasks of one
  /// job that wait only the newest is done; an older one that is under way may be answered after a newer one.
  virtual void submit(PlanningTask task, Done done) = 0;
  /// The job is over: drops its waiting task without an answer, and all data of it.
  virtual void forget(const std::string& job) = 0;
};

/// The answer to a task, by a planner that was made for the task's model. Never throws: errors are in the answer.
/// `preliminary` is called before, with a first answer, where the task wants one and there is one; may be empty.
[[nodiscard]] PlanningAnswer answer_task(MeasuredJob& planner, const PlanningTask& task,
                                         const std::function<void(PlanningAnswer)>& preliminary);

}  // namespace lowgear::server
