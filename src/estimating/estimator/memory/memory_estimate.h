#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/job/training_job.h"

namespace lowgear::estimator {

/// Device memory of the GPU of one pipeline rank, in bytes.
///
/// States of a parameter in mixed precision take 2 bytes of weight, 4 of gradient (sums are kept in fp32), 12 of
/// optimizer: the 18 bytes that Korthikanti et al. 2022 count, before ZeRO divides them. Weights of 4 bytes (fp32,
/// tf32, a stack with fp32 weights) are their own master weights: 4 + 4 + 8. With fp8 the bf16 weight and its two fp8
/// copies (as stored and transposed) are 4 bytes (fp4: 3.1), 2 where the stack keeps weights in fp8 alone; a stack may
/// keep gradients in another type. ZeRO 3, as PyTorch's FSDP does it, keeps only the divided fp32 weights: the master
/// weights in `optimizer`, or a share of `weights` without them; `weights` also has the two layers that are gathered at
/// a time.
struct RankMemory {
  double weights = 0;  ///< in the type that the forward reads
  double gradients = 0;
  double optimizer = 0;      ///< two moments, and fp32 master weights beside narrower weights
  double activations = 0;    ///< of all microbatches in flight at the worst moment
  double logits = 0;         ///< the part of `activations` that the loss keeps
  double buffers = 0;        ///< CUDA context, communication, workspace of one backward
  double workspace = 0;      ///< the part of `buffers` for the backward of a layer or of the head, the larger
  double fragmentation = 0;  ///< holes of the allocator: a twentieth of the memory that it reuses
  double host = 0;           ///< in the memory of the CPUs instead, which no total includes

  [[nodiscard]] double states() const { return weights + gradients + optimizer; }
  [[nodiscard]] double total() const { return states() + activations + buffers + fragmentation; }
};

/// Share of reused memory that is lost in holes of the allocator. An assumption.
inline constexpr double kFragmentationShare = 0.05;

/// Relative error of the memory of a rank: published peaks are within 3 % (docs/estimating.md), apart from the
/// allocator's holes, for which as much again is assumed.
inline constexpr double kMemoryError = 0.06;

/// Share of the capacity by which the estimate without the margin for holes may exceed it before a job is refused: no
/// published run that ran needs more (Llama 2 13B of torchtitan on 64 A100: 2.9 %; docs/estimating.md).
inline constexpr double kMostOverCapacity = 0.03;

/// The rule for all commands.
enum class MemoryFit : unsigned char {
  fits,        ///< at least kMemoryError below the capacity
  near_limit,  ///< between; it may run out of memory
  exceeds,     ///< above the capacity by more than kMostOverCapacity, also without the margin for holes
};

struct MemoryEstimate {
  std::vector<RankMemory> ranks;  ///< by pipeline rank
  double capacity = 0;            ///< the GPU's memory without the driver's share

  [[nodiscard]] std::size_t fullest_rank() const;
  /// Bytes of the fullest rank.
  [[nodiscard]] double peak() const;
  [[nodiscard]] MemoryFit fit() const;
  /// Whether the estimate with its margin is within the capacity.
  [[nodiscard]] bool within_capacity() const { return peak() <= capacity; }
};

/// A line of the table of what is where in a rank's memory.
struct MemoryPart {
  std::string_view name;
  double bytes = 0;
  std::string reason;  ///< how it comes about: `16 bytes x 6.66e9 parameters / 8`
};

/// The parts of the memory of one rank; their sum is its total. Parts of 0 bytes are left out.
[[nodiscard]] std::vector<MemoryPart> memory_parts(const TrainingJob& job, const MemoryEstimate& estimate,
                                                   std::size_t rank);

/// Bytes of each state of one parameter.
struct StateBytes {
  double weight = 0;
  double gradient = 4;
  double optimizer = 8;  ///< two moments, and master weights where there are any
};
[[nodiscard]] StateBytes state_bytes(const TrainingJob& job);

/// Layers whose weights, gradients or activations are on the GPU at a time where they are sharded or offloaded: one in
/// use, the next on its way.
inline constexpr double kWholeLayers = 2;

/// Whether the optimizer has fp32 copies of the weights: weights of 4 bytes need none.
[[nodiscard]] bool keeps_master_weights(const TrainingJob& job);

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
  std::string change;  ///< for the user, as flags (`--recompute full`), or members of a job file
  double total = 0;    ///< bytes
  bool fits = false;
  double time_s = 0;  ///< of an iteration with the change; 0: unknown
};

/// The time of an iteration of a valid job.
using IterationTime = std::function<double(const TrainingJob& job)>;

/// The reason why a job does not fit, and remedies.
struct MemoryOverflow {
  std::size_t rank = 0;      ///< the fullest pipeline rank
  double missing = 0;        ///< bytes above the capacity
  std::string_view largest;  ///< the part of RankMemory that is largest there: `activations`
  double largest_bytes = 0;
  /// Valid changes that help: those with which the job fits by their time where it is known, then by memory.
  std::vector<MemoryRemedy> remedies;
};

/// Empty unless the estimate exceeds the capacity. `time_of`, if given, is asked for changes with which the job fits.
[[nodiscard]] std::optional<MemoryOverflow> explain_overflow(const TrainingJob& job, const MemoryEstimate& estimate,
                                                             const IterationTime& time_of = {});

}  // namespace lowgear::estimator
