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

/// Costs of collectives from samples of them, interpolated in the logarithm of the size. A group that was not sampled
/// takes the nearest one that was, and a size beyond the samples the last one, both scaled as the other source scales;
/// groups within a node never stand for those across nodes, nor the other way round. Files are read when first needed.
/// Not for several threads.
class MeasuredCollectiveCosts final : public CollectiveCosts {
 public:
  /// `files` are of one GPU; those that sample no collective are left alone (there may be none). `otherwise` must
  /// outlive this.
  MeasuredCollectiveCosts(std::vector<SampleFile> files, GpuModel gpu, const CollectiveCosts& otherwise);

  /// Throws InputError on a sampling file that cannot be read.
  [[nodiscard]] WorkCost cost(CollectiveKind kind, double bytes, const RankGroup& group) const override;

  /// What the user should know of the costs so far: samples thrown out and why, groups and sizes that were not
  /// sampled, and links that were much slower than they are.
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
    double relative_error = 0;  ///< that nine in ten samples do not exceed

    [[nodiscard]] double time_s(double bytes) const;  ///< `bytes` from the first point's to the last one's
  };

  [[nodiscard]] const std::vector<Curve>& curves(CollectiveKind kind) const;
  [[nodiscard]] std::vector<Curve> read(CollectiveKind kind) const;
  /// Null where none was sampled; what it is not exactly is noted.
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
