#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "base/core/probability.h"
#include "server/steering/straggler_detector.h"

namespace lowgear::server {

/// Random numbers that are the same everywhere.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed << 32U) {}
  /// In (0, 1).
  double uniform() { return (static_cast<double>(random_bits(++state_) >> 11U) + 0.5) * 0x1p-53; }
  /// Of mean 0 and standard deviation 1 (Box and Muller 1958).
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  std::uint64_t state_;
};

/// Ranks that take 0.5 s to compute, with noise, and what slows them down.
struct NoisyJob {
  std::vector<double> factors;
  double spread = 0.02;
  Noise noise;

  NoisyJob(int ranks, double job_spread, std::uint64_t seed)
      : factors(static_cast<std::size_t>(ranks), 1.0), spread(job_spread), noise(seed) {}

  std::vector<RankIteration> iteration() {
    std::vector<RankIteration> iterations;
    for (std::size_t rank = 0; rank < factors.size(); ++rank) {
      const double time_s = 0.5 * factors[rank] * std::max(0.1, 1 + spread * noise.normal());
      iterations.push_back({static_cast<int>(rank), time_s, 0.5, 0, 0});
    }
    return iterations;
  }
};

}  // namespace lowgear::server
