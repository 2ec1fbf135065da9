#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/job/training_job.h"

namespace lowgear::estimator {

/// Device memory of the GPU of one pipeline rank, in bytes.
///
/// States of a parameter in mixed precision take 2 bytes of weight, 4 of gradient (sums are kept in fp32), 12 of
/// optimizer: the 18 bytes that Korthikanti et al. 2022 count, before ZeRO divides them. In fp32 and tf32 there is no
/// second copy of the weights: 4 + 4 + 8. With fp8 the bf16 weight and its two fp8 copies (as stored and transposed)
/// are 4 bytes. With ZeRO 3, as PyTorch's FSDP does it, the divided master weights are the only ones that stay;
/// `weights` are then the two layers that are gathered at a time.
struct RankMemory {
  double weights = 0;  ///< in the type that the forward reads
  double gradients = 0;
  double optimizer = 0;      ///< fp32 master weights and two moments
  double activations = 0;    ///< of all microbatches in flight at the worst moment
  double buffers = 0;        ///< CUDA context, communication, workspace of one layer's backward
  double fragmentation = 0;  ///< holes of the allocator: a twentieth of the memory that it reuses

  [[nodiscard]] double states() const { return weights + gradients + optimizer; }
  [[nodiscard]] double total() const { return states() + activations + buffers + fragmentation; }
};

/// Share of reused memory that is lost in holes of the allocator. An assumption.
inline constexpr double kFragmentationShare = 0.05;

struct MemoryEstimate {
  std::vector<RankMemory> ranks;  ///< by pipeline rank
  double capacity = 0;            ///< the GPU's memory without the driver's share

  [[nodiscard]] std::size_t fullest_rank() const;
  [[nodiscard]] bool fits() const;
};

/// Bytes of activations that one microbatch keeps in one layer on one of the tp ranks (Korthikanti et al. 2022, section
/// 4: s b h (10 + 24 / t + 5 a s / (h t)) and its variants for sequence parallelism, selective and full recomputation,
/// generalised to gated MLPs, grouped-query and fused attention, experts, and no dropout).
[[nodiscard]] double activation_bytes_per_layer(const TrainingJob& job);

/// Parameters that one tp rank of each pipeline rank holds before ZeRO divides them, copies of tied embeddings and
/// padding included.
[[nodiscard]] std::vector<double> parameters_of_ranks(const TrainingJob& job);

/// Memory of a valid job.
[[nodiscard]] MemoryEstimate estimate_memory(const TrainingJob& job);

/// One change of the job, and the memory of its fullest rank with it.
struct MemoryRemedy {
  std::string change;  ///< for the user, as flags: `--recompute full`
  double total = 0;    ///< bytes
  bool fits = false;
};

/// The reason why a job does not fit, and remedies.
struct MemoryOverflow {
  std::size_t rank = 0;      ///< the fullest pipeline rank
  double missing = 0;        ///< bytes above the capacity
  std::string_view largest;  ///< the part of RankMemory that is largest there: `activations`
  double largest_bytes = 0;
  std::vector<MemoryRemedy> remedies;  ///< valid changes that help, the most effective first
};

/// Empty if it fits.
[[nodiscard]] std::optional<MemoryOverflow> explain_overflow(const TrainingJob& job, const MemoryEstimate& estimate);

}  // namespace lowgear::estimator
