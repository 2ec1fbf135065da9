#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lowgear::sampling {

/// Types of elements in samples.
enum class SampleType : unsigned char { bf16, fp16, fp32 };
/// The word in options and names of files: `bf16`, `fp16`, `fp32`.
[[nodiscard]] std::string_view name(SampleType type);
[[nodiscard]] std::optional<SampleType> sample_type(std::string_view text);
[[nodiscard]] int bytes_of(SampleType type);

/// Sampled operators: the kernels of one rank of a transformer that tensor parallelism divides by `tp`. Files and
/// columns have the names of the published "Distributed Training Estimator of LLMs" (arXiv 2509.22832); swiglu,
/// gated_experts and optimizer are Lowgear's own.
enum class SampledOperator : unsigned char {
  embedding,               ///< `embedding`
  layer_norm,              ///< `layernorm`
  rms_norm,                ///< `RMSlayernorm`
  residual_add,            ///< `res_add`
  linear_qkv,              ///< `linear1`: hidden to 3 hidden / tp
  linear_out,              ///< `linear2`: hidden / tp to hidden
  linear_up,               ///< `linear3`: hidden to 4 hidden / tp
  linear_down,             ///< `linear4`: 4 hidden / tp to hidden
  linear_head,             ///< `linear_final`: hidden to the vocabulary of one rank
  rotary,                  ///< `RoPE`: of queries and keys
  attention_scores,        ///< `baddbmm`: Q K^T
  attention_values,        ///< `bmm`: P V
  fused_attention,         ///< `flash_atten`: causal
  attention_mask,          ///< `fillmask`
  softmax,                 ///< `softmax`
  masked_softmax,          ///< `ScaledUpperTriangMaskedSoftmax`: scale, causal mask and softmax at once
  gelu,                    ///< `gelu`, of width 4 hidden / tp
  swiglu,                  ///< `swiglu`, of outputs of width `dim`
  experts,                 ///< `moe`: router, dispatch, experts with GELU, combination; `mp` ranks share the experts
  gated_experts,           ///< `gated_moe`: the same with SwiGLU
  cross_entropy,           ///< `parallel_cross_entropy_128`, without its all-reduces
  optimizer,               ///< `optimizer`: AdamW, fp32 states, and the copy of the weights in the type
  first_stage_optimizer,   ///< `firstStage_optimizer`: the same of a stage with layers and embedding
  middle_stage_optimizer,  ///< `middleStage_optimizer`: of layers alone
  last_stage_optimizer,    ///< `lastStage_optimizer`: with the output matrix
};
inline constexpr int kSampledOperators = 25;

/// Columns with the sizes of a sample.
enum class ShapeColumn : unsigned char {
  tp,
  microbatch,
  heads,
  sequence,
  hidden,
  parameters,
  layers,
  experts,
  expert_width,
  experts_per_token,
};
/// `mp`, `b`, `h`, `l`, `dim`, `params`, `encoders`, `moe_num_experts`, `intermediate_size`, `top_k`
[[nodiscard]] std::string_view name(ShapeColumn column);

/// Names, columns and passes of an operator.
struct OperatorDescription {
  SampledOperator op;
  std::string_view name;    ///< word in its file's name
  std::string_view family;  ///< word that selects several operators: `linear`, `norm`, ...
  std::span<const ShapeColumn> columns;
  int passes;  ///< 2: forward and backward; 1: the optimizer has one
};
/// All of them, in the order of the enumeration.
[[nodiscard]] std::span<const OperatorDescription> sampled_operators();
[[nodiscard]] const OperatorDescription& describe(SampledOperator op);

/// The operators of a list of names or families, `linear,norm,gelu`, in the order of the enumeration. `all` leaves out
/// the optimizers of stages, which `optimizer` covers by number of parameters. Throws InputError that names `option`
/// and the nearest word.
[[nodiscard]] std::vector<SampledOperator> operators_named(std::string_view list, std::string_view option);

/// One set of sizes; unused ones are 1.
struct OperatorShape {
  std::int64_t tp = 1;
  std::int64_t microbatch = 1;
  std::int64_t heads = 1;  ///< of the whole model
  std::int64_t sequence = 1;
  std::int64_t hidden = 1;
  std::int64_t parameters = 1;         ///< of this rank
  std::int64_t layers = 1;             ///< of the stage
  std::int64_t experts = 1;            ///< of the layer, on all ranks
  std::int64_t expert_width = 1;       ///< within one
  std::int64_t experts_per_token = 1;  ///< top-k of the router

  [[nodiscard]] std::int64_t tokens() const { return microbatch * sequence; }
  [[nodiscard]] std::int64_t at(ShapeColumn column) const;
  friend bool operator==(const OperatorShape&, const OperatorShape&) = default;
};

/// Sizes of the kernels of one rank; unused ones among the first four are 1.
///
/// | operators | sizes |
/// |---|---|
/// | embedding | tokens, vocabulary of the rank, hidden |
/// | norms, residual_add, gelu, swiglu | tokens, width |
/// | linear | tokens, inputs, outputs |
/// | rotary, fused_attention | microbatch, sequence, heads of the rank, head_dim |
/// | attention_scores, attention_values | microbatch * heads of the rank, sequence, head_dim |
/// | attention_mask, softmax, masked_softmax | microbatch * heads of the rank, sequence |
/// | cross_entropy | tokens, vocabulary of the rank |
/// | experts, gated_experts | tokens, hidden, width, experts of the rank, ranks, experts of a token |
/// | optimizers | parameters: of a stage 12 hidden^2 a layer, and the vocabulary of the rank on the first and last |
///
/// The vocabulary is the published sampler's: 50257 tokens, padded to a multiple of 128 on each rank.
using KernelSizes = std::vector<std::int64_t>;
[[nodiscard]] KernelSizes kernel_sizes(SampledOperator op, const OperatorShape& shape);

/// Approximate work of one forward and one backward pass. It bounds the default grid, and selects the points at which
/// energy is measured.
struct SampleWork {
  double flops = 0;
  double traffic_bytes = 0;    ///< read and written
  double footprint_bytes = 0;  ///< allocated at once
};
[[nodiscard]] SampleWork work_of(SampledOperator op, const OperatorShape& shape, SampleType type);

/// Passes every word of `linear,norm` to `take`, which returns whether it knows the word. For an unknown word, throws
/// InputError that names the option, `kind` (`operator`) and the nearest of `words`.
void take_words(std::string_view list, std::string_view option, std::string_view kind,
                std::span<const std::string_view> words, const std::function<bool(std::string_view)>& take);

}  // namespace lowgear::sampling
