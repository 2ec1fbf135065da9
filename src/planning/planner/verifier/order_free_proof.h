#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/core/units.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::planner::verifier {

/// The problem that a bound over all orders is for, as the run states it.
struct OrderFreeWork {
  const profile::StageProfile* of_ranks = nullptr;  ///< one stage for each rank; must outlive its use
  std::vector<double> blocking_power_w;             ///< by rank
  int microbatches = 1;
  std::vector<int> memory;  ///< by rank, in microbatches of the whole rank
};

/// A bound that no order beats, derived anew from the prices in `joint_bound.json` (docs/formats.md): with its own
/// paths, counts and cost curves. For each way to place one or two stages on every rank, with whole and with split
/// backwards, the bound of each line of prices is
///
///     sum over ops of least (effective energy + price x time)  -  (sum of prices - blocking power) x time
class OrderFreeProof {
 public:
  /// Throws InputError at what the text lacks: a way to place stages that the profile allows, or a path that there is
  /// not.
  OrderFreeProof(const OrderFreeWork& work, std::string_view text, const std::string& source);

  /// No iteration of at most this time uses less, blocking energy included; infinite where none is so fast.
  [[nodiscard]] double lower_bound_j_at(double time_s) const;

 private:
  struct Line {
    PowerNw slope_nw = 0;
    EnergyZj intercept_zj = 0;
  };
  struct Layout {
    TimePs least_time_ps = 0;
    std::vector<Line> lines;
  };

  PowerNw blocking_power_nw_ = 0;
  std::vector<Layout> layouts_;
};

}  // namespace lowgear::planner::verifier
