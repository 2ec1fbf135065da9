#pragma once

#include <string>
#include <vector>

#include "estimator/training_job.h"

namespace lowgear {

/// Device memory of the GPU of one pipeline rank, in bytes.
struct RankMemory {
  double weights = 0;  ///< as the forward reads them
  double gradients = 0;
  double optimizer = 0;      ///< fp32 master weights and two moments
  double activations = 0;    ///< of all microbatches in flight at the worst moment
  double buffers = 0;        ///< communication, workspace, CUDA context
  double fragmentation = 0;  ///< margin of the allocator

  [[nodiscard]] double total() const { return weights + gradients + optimizer + activations + buffers + fragmentation; }
};

struct MemoryEstimate {
  std::vector<RankMemory> ranks;  ///< by pipeline rank
  double capacity = 0;            ///< of the GPU

  [[nodiscard]] std::size_t fullest_rank() const;
  [[nodiscard]] bool fits() const;
};

/// Bytes of activations that one microbatch keeps in one layer on one of the tp ranks (Korthikanti et al. 2022, section
/// 4: s b h (10 + 24 / t + 5 a s / (h t)) and its variants for sequence parallelism, selective and full recomputation,
/// generalised to gated MLPs, grouped-query and fused attention, experts, and no dropout).
[[nodiscard]] double activation_bytes_per_layer(const TrainingJob& job);

/// Memory of a valid job.
[[nodiscard]] MemoryEstimate estimate_memory(const TrainingJob& job);

}  // namespace lowgear
