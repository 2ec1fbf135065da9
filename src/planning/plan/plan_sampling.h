#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace lowgear::plan {

/// Which of many plans in a row to keep: so many of them, or every n-th.
struct PlanSampling {
  std::optional<int> count = {};  ///< at least 1; evenly over all of them
  int every = 1;                  ///< at least 1; counts where `count` is absent, as lowtime's sample.py does
};

/// Reads `all`, `20` (so many) or `every:50`. Throws InputError saying that.
[[nodiscard]] PlanSampling read_plan_sampling(std::string_view text);

/// Places of the plans to keep among `total`, in rising order. The first and the last are among them, but for a count
/// of 1, which keeps the last: of plans in the order of lowtime's numbers, the fastest.
[[nodiscard]] std::vector<std::size_t> sampled_places(std::size_t total, const PlanSampling& sampling);

}  // namespace lowgear::plan
