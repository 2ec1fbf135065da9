#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/planning/measured_job.h"

namespace lowgear::server {

/// What the server is asked to plan.
struct PlanningTask {
  enum class Kind : unsigned char { judge_profile, plan };
  Kind kind = Kind::plan;
  std::string job;
  std::uint64_t serial = 0;  ///< of the job's tasks: answers to older ones are out of date
  std::shared_ptr<const PipelineModel> model;
  PlanningConditions conditions;
  std::string reason;
  bool quick_first = false;  ///< a first answer in milliseconds is worth having
};

struct PlanningAnswer {
  std::uint64_t serial = 0;
  std::string reason;
  bool preliminary = false;  ///< a better one follows
  double seconds = 0;        ///< that it took
  std::optional<PlannedJob> planned;
  std::optional<ProfileVerdict> verdict;
  std::string error;  ///< why there is neither
};

}  // namespace lowgear::server
