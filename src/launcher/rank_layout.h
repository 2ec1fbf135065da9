#pragma once

#include <vector>

#include "launcher/train_config.h"

namespace lowgear {

/// Where a rank stands in the job.
struct RankPlace {
  int pp = 0;
  int dp = 0;
  int tp = 0;
};

/// Which ranks work together, in Megatron's order: neighbours share layers (tp), then come replicas (dp), then the
/// positions of the pipeline (pp). Groups are in the order of their members' places.
class RankLayout {
 public:
  explicit RankLayout(const ParallelConfig& parallel) : parallel_(parallel) {}

  [[nodiscard]] int world_size() const { return parallel_.world_size(); }
  [[nodiscard]] RankPlace place_of(int rank) const;
  [[nodiscard]] int rank_at(const RankPlace& place) const;
  [[nodiscard]] std::vector<int> pipeline_of(int rank) const;
  [[nodiscard]] std::vector<int> replicas_of(int rank) const;
  [[nodiscard]] std::vector<int> tensor_group_of(int rank) const;

 private:
  ParallelConfig parallel_;
};

}  // namespace lowgear
