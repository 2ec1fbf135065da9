#pragma once

#include <optional>
#include <vector>

#include "planning/planner/verifier/verify.h"

namespace lowgear::planner {

/// The texts that say how layers moved between ranks.
struct MovedLayers {
  PlanFolder::File layers;  ///< layers.csv: costs of each layer, and of what the first and last stage have besides
  PlanFolder::File given_profile;  ///< given_profile.csv: as it was measured, one stage for each rank
};

/// The texts of an output folder of `lowgear plan --schedule auto`: its plans follow several orders, each of which has
/// a folder of its own.
struct JointFolder {
  PlanFolder::File run;                 ///< run.json
  PlanFolder::File frontier;            ///< frontier.csv: lower envelope of the orders' frontiers
  PlanFolder::File profile;             ///< profile.csv: one stage for each rank, which orders may divide
  std::optional<MovedLayers> moved;     ///< where layers could move
  PlanFolder::File lower_bound;         ///< lower_bound.csv: the bound of all orders
  PlanFolder::File bound_prices;        ///< joint_bound.json: what proves it
  PlanFolder::File plans_table;         ///< plans.csv, with the column `order`
  std::vector<PlanFolder::File> plans;  ///< plans/NNNNN.json, in order
  /// orders/NN: run, profile, schedule, frontier and certificate; plans and their table are left empty.
  std::vector<PlanFolder> orders;
};

/// The folder of one order with the plans that follow it, as `verify` takes it. Throws InputError when the table cannot
/// be read.
[[nodiscard]] PlanFolder order_folder(const JointFolder& folder, std::size_t order);

/// Checks a joint run with code that shares nothing with the search: every order as `verify` does, with its plans; that
/// all orders run the same work, that of the run's profile, and fit into the memory that the run states; that the joint
/// frontier is nowhere above the frontier of any order, and each of its points on that of its order; that the bound
/// over all orders is nowhere above what its prices prove; and that the baseline is that of 1F1B at the highest clocks.
/// Where layers could move, also that the profiles of both partitions are sums of the same layers.
/// Throws InputError when a file cannot be read at all.
[[nodiscard]] VerifyReport verify(const JointFolder& folder, Progress* progress = nullptr);

}  // namespace lowgear::planner
