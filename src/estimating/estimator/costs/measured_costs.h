#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "estimating/estimator/costs/operator_regressor.h"
#include "estimating/estimator/costs/sample_files.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// Costs of operators from samples of them. Files are read, cleaned and fitted when an operator first needs them, each
/// kind of operator from all its files together (`linear1` to `linear_final`), so that any shape can be asked for. What
/// was not sampled, or not in a way that can be believed, costs what another source says. Not for several threads.
class MeasuredOperatorCosts final : public OperatorCosts {
 public:
  /// `files` are of one GPU; those that sample no operator are left alone (there may be no others). `otherwise` must
  /// outlive this.
  MeasuredOperatorCosts(std::vector<SampleFile> files, GpuModel gpu, const OperatorCosts& otherwise);

  /// Throws InputError on a sampling file that cannot be read.
  [[nodiscard]] WorkCost cost(const Operator& op) const override;
  /// From samples of the whole alone.
  [[nodiscard]] std::optional<WorkCost> cost_of_whole(const Operator& whole) const override;

  /// What the user should know of the costs so far: samples thrown out and why, operators from the other source, and
  /// shapes outside of what was sampled.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  /// All samples of one kind of operator and type, and what was fitted to them.
  struct Kind {
    std::array<std::vector<TimedOperator>, 2> samples;  ///< by Pass
    std::array<std::optional<OperatorRegressor>, 2> regressors;
    std::vector<std::string> notes;
    std::map<std::string, std::set<std::int64_t>> ranks;  ///< tensor parallel ranks that a function was sampled for
    std::string outside;                                  ///< the first shape that was
    std::string windowed;                                 ///< said of the first operator with a window
  };
  using Key = std::array<std::int64_t, 9>;

  [[nodiscard]] Kind& kind_of(const Operator& op) const;
  [[nodiscard]] Kind read(OperatorKind kind, DataType dtype) const;
  void read(const SampleFile& file, Kind& kind) const;
  /// Notes what the samples of a kind lack.
  static void note_gaps(OperatorKind kind, Kind& samples);
  [[nodiscard]] WorkCost predict(const Operator& op) const;
  [[nodiscard]] WorkCost within_window(const Operator& op) const;

  std::vector<SampleFile> files_;
  GpuModel gpu_;
  const OperatorCosts& otherwise_;
  mutable std::map<std::pair<OperatorKind, DataType>, Kind> kinds_;
  mutable std::map<Key, WorkCost> known_;
};

}  // namespace lowgear::estimator
