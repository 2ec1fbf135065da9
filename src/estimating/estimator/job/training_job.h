#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/job/software_stack.h"
#include "estimating/model/model_config.h"

namespace lowgear::estimator {

/// One kind of connection, as one GPU sees it.
struct Link {
  double bytes_per_s = 0;  ///< one direction
  double latency_s = 0;    ///< of a message of no bytes
};

/// The memory of a node's CPUs, and the way to it.
struct HostMemory {
  double link_bytes_per_s = 0;    ///< between a GPU and its CPU, one direction
  double memory_bytes_per_s = 0;  ///< of the CPUs' memory, a GPU's share
  std::string_view source = {};   ///< `published for DGX A100`
};

/// GPUs in nodes. `intra_node` connects GPUs of a node, `inter_node` (each GPU's share of the node's network adapters)
/// GPUs of different nodes.
struct Cluster {
  int gpus_per_node = 8;
  Link intra_node;
  Link inter_node;
  HostMemory host = {};
};

/// Numbers of ranks in each dimension. Ranks are ordered as in Megatron: tensor parallel innermost, then context, then
/// data (with expert parallel groups inside it), then pipeline.
struct ParallelLayout {
  int dp = 1;                      ///< replicas
  int tp = 1;                      ///< ranks that share every layer
  int pp = 1;                      ///< pipeline stages (ranks)
  int virtual_stages = 1;          ///< virtual stages per rank (interleaved 1F1B)
  int ep = 1;                      ///< ranks that share the experts of a layer; divides dp * cp
  int cp = 1;                      ///< ranks that share a sequence
  bool sequence_parallel = false;  ///< norms and residuals are split along the sequence among tp ranks

  [[nodiscard]] int gpus() const { return dp * tp * pp * cp; }
  friend bool operator==(const ParallelLayout&, const ParallelLayout&) = default;
};

struct BatchShape {
  std::int64_t global = 0;           ///< sequences in an iteration, all replicas
  std::int64_t micro = 1;            ///< sequences in a microbatch
  std::int64_t sequence_length = 0;  ///< tokens
};

enum class Recompute : unsigned char {
  none,       ///< keeps all activations
  selective,  ///< recomputes attention scores (Korthikanti et al. 2022); without effect on fused attention
  /// Keeps the results of attention and of every other product, and runs the rest of a layer again: torchtitan's
  /// selective recomputation of operators.
  operators,
  full,  ///< keeps only the input of each layer
};

enum class AttentionKind : unsigned char {
  fused,    ///< scores stay out of memory (FlashAttention)
  unfused,  ///< scores, softmax and dropout as kernels of their own (Megatron before 2023)
};

/// States of parameters, or activations, that lie in the memory of the CPUs while the GPU does not use them.
enum class Offload : unsigned char {
  none,
  activations,  ///< those that layers keep for their backward
  optimizer,    ///< the optimizer's states, which the CPUs update, and gradients that ZeRO 2 or 3 has divided
  states,       ///< the same and the weights that ZeRO 3 has divided
};

/// Communication that runs concurrently with computation instead of after it.
struct Overlap {
  bool gradients = true;  ///< sums of dp concurrently with the last backward
  /// The tp collective of an input gradient concurrently with the product of the weight gradient (Megatron since 2022).
  bool tensor_gradients = true;
  bool tensor = false;    ///< all tp collectives concurrently with matrix products, cut into pieces
  bool pipeline = false;  ///< messages between stages concurrently with computation
};

[[nodiscard]] std::string_view name(Recompute recompute);  ///< `none`, `selective`, `operators`, `full`
/// For sentences: `no recomputation`, `recomputation of single operators`.
[[nodiscard]] std::string_view recomputation_text(Recompute recompute);
[[nodiscard]] std::string_view name(AttentionKind attention);
[[nodiscard]] std::string_view name(Offload offload);  ///< `none`, `activations`, `optimizer`, `states`
/// `ZeRO 3 in groups of 8`, without the groups where all replicas shard.
[[nodiscard]] std::string sharding_text(int zero, int shard_size);

/// A training job: a field for each section and setting of a job file.
struct TrainingJob {
  model::ModelConfig model;
  GpuModel gpu;
  Cluster cluster;
  ParallelLayout parallel;
  BatchShape batch;
  Recompute recompute = Recompute::none;
  AttentionKind attention = AttentionKind::fused;
  /// ZeRO stage. Sharded among replicas are: 0 nothing, 1 optimizer states, 2 also gradients, 3 also weights.
  int zero = 1;
  /// Ranks of dp * cp among which ZeRO shards; the other groups of as many have copies of the shards (hybrid sharding).
  /// 0: all.
  int shard_size = 0;
  Offload offload = Offload::none;
  DataType dtype = DataType::bf16;
  Overlap overlap;
  /// A name of planning/schedule/generators.h but `envpipe`, which needs the times of stages; `interleaved` for virtual
  /// stages.
  std::string schedule = "1f1b";
  double dropout = 0;  ///< above 0, masks take memory and time
  /// Each of the tp ranks sends its share of the activations between stages, and their node gathers them, as Megatron
  /// and DeepSpeed do; otherwise every rank sends all of them. Always with sequence parallelism.
  bool split_messages = true;
  SoftwareStack stack = software_stacks().front();

  /// Microbatches of one replica and iteration.
  [[nodiscard]] std::int64_t microbatches() const { return batch.global / (batch.micro * parallel.dp); }
};

/// The default cluster of a GPU: nodes of eight with the GPU's links (GH200: of four), one network adapter per GPU with
/// the usual rate, and the CPUs of a reference system (job_defaults.cpp names sources).
[[nodiscard]] Cluster default_cluster(const GpuModel& gpu);

/// Limits of counts in a job.
inline constexpr int kMaxJobGpus = 1 << 20;
inline constexpr std::int64_t kMaxBatch = std::int64_t{1} << 32;

/// Why a job is invalid.
struct JobFault {
  std::string_view member;  ///< as a job file names it: `parallel.tp`
  std::string what;
  std::string fix;  ///< may be empty
};

/// The first fault, if any. A job without one has a layout that divides heads, key/value heads, widths, experts and
/// sequence (the vocabulary is padded, see padded_vocabulary), expert parallel groups within dp * cp, less than a node
/// or whole nodes of GPUs, a layer in each stage, a global batch that is a multiple of dp * micro, ZeRO, groups of
/// shards, dtype, GPU and schedule that exist and go together, and counts that are positive and bounded. It ignores the
/// sizes of the model, which find_fault(ModelConfig) does.
[[nodiscard]] std::optional<JobFault> find_fault(const TrainingJob& job);

/// Throws InputError with the fault of the model or of the job.
void require_valid(const TrainingJob& job);

/// Tokens of the vocabulary as it is divided among tp ranks: padded to a multiple of 128 * tp, as Megatron does.
[[nodiscard]] std::int64_t padded_vocabulary(const TrainingJob& job);

/// Layers of each virtual stage, in the order of the model, as even as possible. Later stages, which have no embedding,
/// are the first to have one more, except the last, which has the head.
[[nodiscard]] std::vector<std::int64_t> layers_of_stages(const TrainingJob& job);

/// Whether a layer is of the model's second kind: dense among layers with experts, or of the encoder before a decoder.
[[nodiscard]] bool is_of_second_kind(const model::ModelConfig& model, std::int64_t layer);

/// Of the layers of each virtual stage, those of the second kind.
[[nodiscard]] std::vector<std::int64_t> second_kind_of_stages(const TrainingJob& job);

/// The job whose layers are all of the second kind; empty where there are none.
[[nodiscard]] std::optional<TrainingJob> second_kind(const TrainingJob& job);

}  // namespace lowgear::estimator
