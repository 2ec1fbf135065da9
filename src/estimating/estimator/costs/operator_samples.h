#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// What the name of a sampling file says: `{gpu}_{function}_{dtype}.csv`, with `_part{k}of{n}` at its end where
/// machines shared the work, and for collectives of one topology `{gpu}_{function}_{dtype}_{nodes}_{GPUs per
/// node}.csv`.
struct SampleFileName {
  std::string gpu;       ///< as the driver names it, without blanks: `NVIDIAA100-SXM4-80GB`
  std::string function;  ///< `linear1`, `allreduce_large`, ...
  DataType dtype = DataType::fp16;
  std::optional<RankGroup> group;

  friend bool operator==(const SampleFileName&, const SampleFileName&) = default;
};

/// Nothing where the name has another form. `name` is that of the file, without folders.
[[nodiscard]] std::optional<SampleFileName> parse_sample_file_name(std::string_view name);

/// The shape of one sample as the columns of a sampling file state it; 0 where a file has no such column.
struct SampledShape {
  std::int64_t ranks = 0;              ///< `mp`: tensor parallel ranks that share the operator
  std::int64_t batch = 0;              ///< `b`: sequences
  std::int64_t heads = 0;              ///< `h`: of all ranks
  std::int64_t sequence = 0;           ///< `l`: tokens
  std::int64_t hidden = 0;             ///< `dim`: of all ranks
  std::int64_t layers = 0;             ///< `encoders`: of the stage that an optimizer updates
  std::int64_t parameters = 0;         ///< `params`: of the rank that an optimizer updates
  std::int64_t experts = 0;            ///< `moe_num_experts`: of the layer, that the ranks share
  std::int64_t expert_width = 0;       ///< `intermediate_size`: within one
  std::int64_t experts_per_token = 0;  ///< `top_k`

  friend bool operator==(const SampledShape&, const SampledShape&) = default;
};

/// The part of the vocabulary of one of `ranks` tensor parallel ranks that operators are sampled with.
[[nodiscard]] std::int64_t sampled_vocabulary(std::int64_t ranks);

/// A function that is sampled: which operator it is, and which columns its file has.
struct SampledFunction {
  std::string_view name;
  OperatorKind kind = OperatorKind::linear;
  std::string_view columns;  ///< `mp,b,l,dim`
  bool one_pass = false;     ///< has one time, `dur(us)`, instead of forward and backward (optimizers)
};

/// Those of the published sampling files and of `lowgear sample`, in the order of a transformer.
[[nodiscard]] std::span<const SampledFunction> sampled_functions();
/// Null where there is none of the name.
[[nodiscard]] const SampledFunction* find_sampled_function(std::string_view name);

/// The operator that one rank ran; nothing where ranks or heads do not divide the shape, or a token uses more experts
/// than there are.
[[nodiscard]] std::optional<Operator> operator_of(const SampledFunction& function, const SampledShape& shape, Pass pass,
                                                  DataType dtype);

struct OperatorSample {
  SampledShape shape;
  double forward_s = 0;   ///< of the only pass where the function has one
  double backward_s = 0;  ///< 0 where the function has one pass
  int line = 0;           ///< of the file
};

/// One sampling file of an operator.
struct OperatorSamples {
  std::string source;
  const SampledFunction* function = nullptr;  ///< of sampled_functions()
  DataType dtype = DataType::fp16;
  /// Attention without a causal mask, which does twice the work that OperatorKind::fused_attention states: so the
  /// published files have it, which lack the column `F_spread(us)`.
  bool uncausal = false;
  std::vector<OperatorSample> rows = {};  ///< at least one
};

/// Reads a sampling file. Columns may stand in any order, and there may be others; whole numbers may be written as
/// `4.0`. Throws InputError with line and column on a column that is missing, a shape that is no whole number or that
/// its ranks or heads do not divide, a time that is not above 0, and on a file without rows.
[[nodiscard]] OperatorSamples parse_operator_samples(std::string_view csv, const std::string& source,
                                                     const SampledFunction& function, DataType dtype);

/// One measured collective.
struct CollectiveSample {
  double elements = 0;  ///< of the message; of each rank's share of it in all-gathers and reduce-scatters
  RankGroup group;
  double time_s = 0;
  int line = 0;
};

struct CollectiveSamples {
  std::string source;
  CollectiveKind kind = CollectiveKind::all_reduce;
  DataType dtype = DataType::fp16;
  std::vector<CollectiveSample> rows = {};  ///< at least one
};

/// The collective that a sampled function is (`allreduce`, `allreduce_large`, `p2p`, ...); nothing where it is none.
[[nodiscard]] std::optional<CollectiveKind> sampled_collective(std::string_view function);

/// Reads a sampling file of a collective: `shape,nodes,GPUsPerNode,dur(us)`. Throws InputError as
/// parse_operator_samples does.
[[nodiscard]] CollectiveSamples parse_collective_samples(std::string_view csv, const std::string& source,
                                                         CollectiveKind kind, DataType dtype);

/// Bytes of the whole message as CollectiveCosts counts them.
[[nodiscard]] double message_bytes(CollectiveKind kind, const CollectiveSample& sample, DataType dtype);

}  // namespace lowgear::estimator
