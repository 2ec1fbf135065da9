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

/// Costs of operators from samples. Files are read, cleaned and fitted when an operator first needs them: one fit for
/// all files of a kind of operator (`linear1` to `linear_final`), so that it covers any shape. Another source gives the
/// costs of operators without plausible samples. Not for several threads.
class MeasuredOperatorCosts final : public OperatorCosts {
 public:
  /// `files` are of one GPU. Files without samples of operators are ignored; all may be such. `otherwise` is the other
  /// source and must outlive this object.
  MeasuredOperatorCosts(std::vector<SampleFile> files, GpuModel gpu, const OperatorCosts& otherwise);

  /// Throws InputError on a sampling file that cannot be read.
  [[nodiscard]] WorkCost cost(const Operator& op) const override;
  /// Uses only samples of the whole.
  [[nodiscard]] std::optional<WorkCost> cost_of_whole(const Operator& whole) const override;

  /// Notes for the user about the costs so far: removed samples with the reason, operators from the other source,
  /// shapes outside the samples.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  /// All samples of one kind of operator and type, with the regressors fitted to them.
  struct Kind {
    std::array<std::vector<TimedOperator>, 2> samples;  ///< by Pass
    std::array<std::optional<OperatorRegressor>, 2> regressors;
    std::vector<std::string> notes;
    std::map<std::string, std::set<std::int64_t>> ranks;  ///< tensor parallel ranks that a function was sampled for
    std::string outside;                                  ///< the first shape outside the samples
    std::string windowed;                                 ///< the note about the first operator with a window
  };
  using Key = std::array<std::int64_t, 10>;

  [[nodiscard]] Kind& kind_of(const Operator& op) const;
  [[nodiscard]] Kind read(OperatorKind kind, DataType dtype) const;
  void read(const SampleFile& file, Kind& kind) const;
  /// Notes which samples of a kind are missing.
  static void note_gaps(OperatorKind kind, Kind& samples);
  [[nodiscard]] WorkCost predict(const Operator& op) const;
  [[nodiscard]] WorkCost within_window(const Operator& op) const;

  std::vector<SampleFile> files_;
  GpuModel gpu_;
  const OperatorCosts& otherwise_;
  mutable std::map<std::pair<OperatorKind, DataType>, Kind> kinds_;
  mutable std::map<Key, WorkCost> known_;
};

/// Costs of collectives from samples, interpolated in the logarithm of the size. A group without samples has the costs
/// of the nearest sampled one, and a size beyond the samples those of the last one, both scaled as the other source
/// scales. Groups within a node never stand for groups across nodes, nor the reverse. Files are read when first needed.
/// Not for several threads.
class MeasuredCollectiveCosts final : public CollectiveCosts {
 public:
  /// `files` are of one GPU. Files without samples of collectives are ignored; all may be such. `otherwise` is the
  /// other source and must outlive this object.
  MeasuredCollectiveCosts(std::vector<SampleFile> files, GpuModel gpu, const CollectiveCosts& otherwise);

  /// Throws InputError on a sampling file that cannot be read.
  [[nodiscard]] WorkCost cost(CollectiveKind kind, double bytes, const RankGroup& group) const override;

  /// Notes for the user about the costs so far: removed samples with the reason, groups and sizes without samples,
  /// links that were much slower in the samples than the data sheet says.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Point {
    double bytes = 0;
    double time_s = 0;
  };
  /// Times of one kind of collective in one group by size, ascending; never empty once read.
  struct Curve {
    RankGroup group;
    std::vector<Point> points;
    double relative_error = 0;  ///< error that nine in ten samples do not exceed

    [[nodiscard]] double time_s(double bytes) const;  ///< `bytes` from the first point's to the last one's
  };

  [[nodiscard]] const std::vector<Curve>& curves(CollectiveKind kind) const;
  [[nodiscard]] std::vector<Curve> read(CollectiveKind kind) const;
  /// The curve of the nearest sampled group, with a note unless it is the same group; null without samples.
  [[nodiscard]] const Curve* nearest(CollectiveKind kind, const RankGroup& group) const;
  [[nodiscard]] static Curve curve_of(RankGroup group, std::vector<Point> samples);
  void note_slow_links(CollectiveKind kind, const Curve& curve) const;
  void note(std::string text) const;

  std::vector<SampleFile> files_;
  GpuModel gpu_;
  const CollectiveCosts& otherwise_;
  mutable std::map<CollectiveKind, std::vector<Curve>> curves_;
  mutable std::vector<std::string> notes_;
};

}  // namespace lowgear::estimator
