#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// The parts of a sampling file's name: `{gpu}_{function}_{dtype}.csv`, with `_part{k}of{n}` at its end if machines
/// shared the work, and for collectives of one topology `{gpu}_{function}_{dtype}_{nodes}_{GPUs per node}.csv`.
struct SampleFileName {
  std::string gpu;       ///< as the driver names it, without blanks: `NVIDIAA100-SXM4-80GB`
  std::string function;  ///< `linear1`, `allreduce_large`, ...
  DataType dtype = DataType::fp16;
  std::optional<RankGroup> group;

  friend bool operator==(const SampleFileName&, const SampleFileName&) = default;
};

/// Empty if the name has another form. `name` is the file's name without folders.
[[nodiscard]] std::optional<SampleFileName> parse_sample_file_name(std::string_view name);

/// The shape of one sample, a field for each column of sampling files; 0 without the column.
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

/// Number of tokens in the vocabulary of one of `ranks` tensor parallel ranks, as operators are sampled.
[[nodiscard]] std::int64_t sampled_vocabulary(std::int64_t ranks);

/// A sampled function: its operator and the columns of its file.
struct SampledFunction {
  std::string_view name;
  OperatorKind kind = OperatorKind::linear;
  std::string_view columns;  ///< `mp,b,l,dim`
  bool one_pass = false;     ///< has one time, `dur(us)`, instead of forward and backward (optimizers)
};

/// The functions of the published sampling files and of `lowgear sample`, in the order of a transformer.
[[nodiscard]] std::span<const SampledFunction> sampled_functions();
/// Null for an unknown name.
[[nodiscard]] const SampledFunction* find_sampled_function(std::string_view name);

/// The operator that one rank ran. Empty if ranks or heads do not divide the shape, or a token uses more experts than a
/// layer has.
[[nodiscard]] std::optional<Operator> operator_of(const SampledFunction& function, const SampledShape& shape, Pass pass,
                                                  DataType dtype);

struct OperatorSample {
  SampledShape shape;
  double forward_s = 0;   ///< time of forward, or of the only pass
  double backward_s = 0;  ///< 0 for functions of one pass
  int line = 0;           ///< of the file
};

/// One sampling file of an operator.
struct OperatorSamples {
  std::string source;
  const SampledFunction* function = nullptr;  ///< of sampled_functions()
  DataType dtype = DataType::fp16;
  /// Attention without a causal mask, which does twice the work of OperatorKind::fused_attention. Files without the
  /// column `F_spread(us)`, as the published ones, have such samples.
  bool uncausal = false;
  std::vector<OperatorSample> rows = {};  ///< at least one
};

/// Reads a sampling file. Columns may be in any order; unknown ones are ignored; whole numbers may be written as `4.0`.
/// Throws InputError with line and column on a missing column, a shape that is no whole number or that its ranks or
/// heads do not divide, a time that is not above 0, and on a file without rows.
[[nodiscard]] OperatorSamples parse_operator_samples(std::string_view csv, const std::string& source,
                                                     const SampledFunction& function, DataType dtype);

/// One measured collective.
struct CollectiveSample {
  double elements = 0;  ///< in the message; in each rank's share of it for all-gathers and reduce-scatters
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

/// The collective of a sampled function (`allreduce`, `allreduce_large`, `p2p`, ...). Empty for operators.
[[nodiscard]] std::optional<CollectiveKind> sampled_collective(std::string_view function);

/// Reads a sampling file of a collective: `shape,nodes,GPUsPerNode,dur(us)`. Throws InputError as
/// parse_operator_samples does.
[[nodiscard]] CollectiveSamples parse_collective_samples(std::string_view csv, const std::string& source,
                                                         CollectiveKind kind, DataType dtype);

/// Bytes of the whole message as CollectiveCosts counts them.
[[nodiscard]] double message_bytes(CollectiveKind kind, const CollectiveSample& sample, DataType dtype);

}  // namespace lowgear::estimator
