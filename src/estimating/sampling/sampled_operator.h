#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lowgear::sampling {

/// Types of elements that are sampled.
enum class SampleType : unsigned char { bf16, fp16, fp32 };
/// `bf16`, `fp16`, `fp32`: as options and names of files have it.
[[nodiscard]] std::string_view name(SampleType type);
[[nodiscard]] std::optional<SampleType> sample_type(std::string_view text);
[[nodiscard]] int bytes_of(SampleType type);

/// What is sampled: the kernels of one rank of a transformer that tensor parallelism divides by `tp`. Names of files
/// and columns are those of the published "Distributed Training Estimator of LLMs" (arXiv 2509.22832) where it has the
/// operator; swiglu, gated_experts and optimizer are Lowgear's own.
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

/// Columns that say what was sampled.
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

/// An operator as users and files know it.
struct OperatorDescription {
  SampledOperator op;
  std::string_view name;    ///< in the name of its file
  std::string_view family;  ///< several that are chosen by one word: `linear`, `norm`, ...
  std::span<const ShapeColumn> columns;
  int passes;  ///< 2: forward and backward; 1: the optimizer has one
};
/// All of them, in the order of the enumeration.
[[nodiscard]] std::span<const OperatorDescription> sampled_operators();
[[nodiscard]] const OperatorDescription& describe(SampledOperator op);

/// The operators that a list of names or families means, `linear,norm,gelu`, in the order of the enumeration; for `all`
/// all but the optimizers of stages, which the one by number of parameters covers. Throws InputError that names
/// `option` and the nearest word there is.
[[nodiscard]] std::vector<SampledOperator> operators_named(std::string_view list, std::string_view option);

/// One set of sizes; what an operator has no use for is 1.
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
  std::int64_t experts_per_token = 1;  ///< that the router chooses

  [[nodiscard]] std::int64_t tokens() const { return microbatch * sequence; }
  [[nodiscard]] std::int64_t at(ShapeColumn column) const;
  friend bool operator==(const OperatorShape&, const OperatorShape&) = default;
};

/// Sizes as the kernels of one rank see them; of the first four unused ones are 1.
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

/// About what one forward and one backward pass take: what bounds the default grid and chooses where energy is
/// measured.
struct SampleWork {
  double flops = 0;
  double traffic_bytes = 0;    ///< read and written
  double footprint_bytes = 0;  ///< allocated at once
};
[[nodiscard]] SampleWork work_of(SampledOperator op, const OperatorShape& shape, SampleType type);

/// Hands every word of `linear,norm` to `take`, which returns whether there is such a thing. Throws InputError that
/// names the option, `kind` (`operator`) and the nearest of `words` where there is not.
void take_words(std::string_view list, std::string_view option, std::string_view kind,
                std::span<const std::string_view> words, const std::function<bool(std::string_view)>& take);

}  // namespace lowgear::sampling
