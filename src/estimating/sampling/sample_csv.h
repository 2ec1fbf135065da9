#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/sampling/sampled_operator.h"
#include "estimating/sampling/sampling_plan.h"

namespace lowgear::sampling {

/// Energy and time of one run, from a window of many runs. Nothing flushes the cache in between.
struct SampledEnergy {
  double energy_j = 0;
  double error_j = 0;    ///< +-, from the counter's steps
  double window_us = 0;  ///< time of a run: window / number of runs
  std::optional<double> clock_mhz;
};

/// Measurements of one pass.
struct PassSample {
  double duration_us = 0;  ///< median over the repeats
  double spread_us = 0;    ///< distance between the quartiles
  int repeats = 0;
  std::optional<double> clock_mhz;  ///< SM clock while the repeats ran
  std::optional<SampledEnergy> energy;
};

struct SampleRow {
  std::vector<std::int64_t> shape;  ///< the first columns
  std::vector<PassSample> passes;   ///< forward and backward, or the only one
};

/// A file of samples: the published estimator's columns, then Lowgear's own.
class SampleFormat {
 public:
  [[nodiscard]] static SampleFormat of(SampledOperator op);
  /// `shape,nodes,GPUsPerNode,dur(us)`
  [[nodiscard]] static SampleFormat of_collectives();

  /// Ends with a line break, as rows do.
  [[nodiscard]] std::string header() const;
  /// Throws std::invalid_argument unless the row has the format's sizes and passes.
  [[nodiscard]] std::string row(const SampleRow& row) const;
  [[nodiscard]] std::size_t shape_columns() const { return shape_columns_.size(); }

 private:
  SampleFormat(std::vector<std::string> shape_columns, std::vector<std::string> passes)
      : shape_columns_(std::move(shape_columns)), passes_(std::move(passes)) {}

  std::vector<std::string> shape_columns_;
  std::vector<std::string> passes_;  ///< prefixes of their columns
};

/// The shape columns of a row.
[[nodiscard]] std::vector<std::int64_t> shape_cells(SampledOperator op, const OperatorShape& shape);

/// Where an interrupted file continues.
struct ResumePoint {
  std::size_t kept_bytes = 0;  ///< of the file: header and complete rows; 0: no rows, so the header is written again
  std::size_t rows = 0;        ///< number of complete rows
  std::size_t next = 0;        ///< index in the plan after the last row
};

/// Reads an interrupted file whose rows follow `plan` (shape cells, in order; shapes that did not fit into memory have
/// no row). Throws InputError with file and line on rows of another plan and on other columns.
[[nodiscard]] ResumePoint resume(const SampleFormat& format, std::string_view text, const std::string& source,
                                 std::span<const std::vector<std::int64_t>> plan);

/// Names of files, below the folder of all samples: `operator/NVIDIAH10080GBHBM3_linear1_bf16.csv`, and with a part
/// `..._bf16_part1of4.csv`. Characters of the GPU's name that do not belong into a file's name are left out.
[[nodiscard]] std::string operator_file(std::string_view gpu, SampledOperator op, SampleType type,
                                        const SamplePart& part);
/// `nccl/NVIDIAH200_allreduce_bf16_1_2.csv`: the numbers of nodes and of GPUs in each; `library` is `nccl` or `gloo`.
[[nodiscard]] std::string collective_file(std::string_view library, std::string_view gpu, SampledCollective collective,
                                          SampleType type, int nodes, int gpus_per_node);

/// Median and distance between the quartiles. `times` is not empty.
struct Spread {
  double median = 0;
  double quartiles = 0;
};
[[nodiscard]] Spread spread_of(std::vector<double> times);

}  // namespace lowgear::sampling
