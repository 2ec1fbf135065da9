#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/plan/plan.h"
#include "protocol/rank_plan.h"

namespace lowgear::server {

/// Clocks for all ranks of a job. Ranks of the same place in their pipelines have the same clocks, but for replicas
/// that a straggler holds up.
struct PlanVersion : protocol::PlanHead {
  std::vector<plan::Plan> plans;
  std::vector<int> plan_of_replica;  ///< by dp rank
  /// By plan and pp rank: time of a rank's units in an iteration at the plan's clocks when nothing slows it down. Empty
  /// when not known.
  std::vector<std::vector<double>> expected_compute_s;

  /// The clock that is tried out in an iteration; empty: the plan's own clocks.
  [[nodiscard]] std::optional<int> trial_mhz(std::int64_t iteration) const;
  [[nodiscard]] const plan::Plan& plan_of(int dp_rank) const {
    return plans.at(static_cast<std::size_t>(plan_of_replica.at(static_cast<std::size_t>(dp_rank))));
  }
};

/// The whole version, and back: what the store keeps. Throws InputError.
[[nodiscard]] std::string write_plan_version(const PlanVersion& version);
[[nodiscard]] PlanVersion read_plan_version(std::string_view text);

/// The answers to ranks that ask for their plan: text made once for all ranks that get the same.
class RankPlanTexts {
 public:
  explicit RankPlanTexts(const PlanVersion& version) : version_(&version) {}
  /// The plan of a rank, to begin at `from_iteration`, as docs/server-api.md has it.
  [[nodiscard]] std::shared_ptr<const std::string> text(int dp_rank, int pp_rank, std::int64_t from_iteration);

 private:
  struct Key {
    int plan;
    int pp_rank;
    std::int64_t from_iteration;
    // NOLINTNEXTLINE(modernize-use-nullptr): the 0 of a comparison is no pointer
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  const PlanVersion* version_;
  std::map<Key, std::shared_ptr<const std::string>> texts_;
};

}  // namespace lowgear::server
