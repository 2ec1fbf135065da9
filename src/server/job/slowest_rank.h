#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace lowgear::server {

/// The rank whose times count as those of the job. Times of one rank never add up to more than the time of the job: the
/// longest of each iteration would, as one rank waits in this iteration and another one in the next, and means of ranks
/// would miss what they wait between iterations.
class SlowestRank {
 public:
  /// To be called for every iteration, in order. `times_s`: by rank; 0: not known. Returns the time that counts.
  [[nodiscard]] double take(std::span<const double> times_s);

 private:
  std::optional<std::size_t> rank_;
  std::vector<double> behind_;  ///< by rank: how much longer than `rank_` it has taken lately, in iterations
};

}  // namespace lowgear::server
