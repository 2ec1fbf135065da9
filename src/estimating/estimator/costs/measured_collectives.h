#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "estimating/estimator/costs/sample_files.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

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
