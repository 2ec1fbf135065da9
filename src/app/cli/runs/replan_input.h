#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "app/cli/arguments/joint_arguments.h"
#include "app/cli/arguments/work_change_arguments.h"
#include "planning/profile/layers/layer_profile.h"
#include "planning/workflow/run_contents.h"

namespace lowgear::cli {

/// The plan that a job follows: the one that the report of a folder shows, of a given order or of a searched one.
struct FollowedPlan {
  workflow::RunContents contents;                       ///< profile and schedule are those of the plan's order
  std::optional<profile::StageProfile> by_rank;         ///< one stage for each rank; empty: not known
  std::optional<profile::Partition> moved_layers = {};  ///< by rank, where the planner has moved layers
};

/// Throws InputError when the folder is not one that `lowgear plan` has written.
[[nodiscard]] FollowedPlan read_followed_plan(const std::filesystem::path& folder);

/// The layers of every stage of the plan's order, from `--layers` (`partition_from_layers`); where the planner has
/// moved layers, `layers` has to be their sum, or the partition that the planner has chosen. Throws InputError when it
/// is not, or when a rank has several stages and layers that they cannot have equal parts of.
[[nodiscard]] profile::Partition followed_partition(const FollowedPlan& plan, const std::string& layers);

/// The changed work with a free order.
struct FreeOrderChange {
  WorkChangeArguments work;
  std::optional<std::string> memory_limit;  ///< empty: that of the plan's own search, else `1f1b`
  std::optional<double> backward_split;     ///< share of the input gradient, where the profile has whole backwards only
  bool keep_partition = false;
};

/// What to plan jointly: the changed work, its layers divided so that the costliest stage takes least time, from where
/// the search moves them on. Throws InputError when a stage would have frozen layers alone, the plan has several stages
/// on a rank and no profile by rank, and as `changed_profile` and `layer_profile_of` do.
[[nodiscard]] JointInput joint_input(const FollowedPlan& plan, const FreeOrderChange& change);

}  // namespace lowgear::cli
