#pragma once

#include <vector>

#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// The place of a rank in the job.
struct RankPlace {
  int pp = 0;
  int dp = 0;
  int tp = 0;
};

/// The positions in a pipeline that have the first and the last stage: a schedule may put them anywhere.
struct PipelineEnds {
  int first = 0;
  int last = 0;
};

/// Which ranks work together, in Megatron's order: neighbours share layers (tp), then come replicas (dp), then the
/// positions of the pipeline (pp). Groups are in the order of their members' places.
class RankLayout {
 public:
  /// With the first stage at the first position of the pipeline, and the last at the last.
  explicit RankLayout(const protocol::JobParallel& parallel)
      : RankLayout(parallel, {.first = 0, .last = parallel.pp - 1}) {}
  RankLayout(const protocol::JobParallel& parallel, const PipelineEnds& ends) : parallel_(parallel), ends_(ends) {}

  [[nodiscard]] int world_size() const { return parallel_.world_size(); }
  [[nodiscard]] RankPlace place_of(int rank) const;
  [[nodiscard]] int rank_at(const RankPlace& place) const;
  [[nodiscard]] std::vector<int> pipeline_of(int rank) const;
  [[nodiscard]] std::vector<int> replicas_of(int rank) const;
  [[nodiscard]] std::vector<int> tensor_group_of(int rank) const;
  /// The ranks that have the first and the last stage of this rank's pipeline, in this order: those that share a tied
  /// embedding. None unless this rank is one of them, and none where one rank has both.
  [[nodiscard]] std::vector<int> tied_group_of(int rank) const;

 private:
  /// The ranks that differ from this one at most in one member of their place, which has `size` values.
  [[nodiscard]] std::vector<int> along(int RankPlace::*axis, int size, int rank) const;

  protocol::JobParallel parallel_;
  PipelineEnds ends_;
};

}  // namespace lowgear::launcher
