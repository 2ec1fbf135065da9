#include "planning/joint/partition/partition_choice.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "base/core/units.h"
#include "planning/joint/bound/order_free_bound.h"

namespace lowgear::joint {
namespace {

/// A rating finds prices for each rank, which takes longer for more of them: the work that all ratings may take.
constexpr int kRankRatings = 1200;
constexpr int kFewestRatings = 8;
/// Bounds are within some 1e-4 of their optimum: a smaller gain is no gain.
constexpr double kLeastImprovement = 1e-4;
/// Partitions in which orders are searched, but for the given one.
constexpr std::size_t kSearched = 3;

bool is_better(const RatedPartition& a, const RatedPartition& b) {
  if (a.bound_j == b.bound_j) return a.least_time_s < b.least_time_s * (1 - kLeastImprovement);  // both may be infinite
  return a.bound_j < b.bound_j * (1 - kLeastImprovement);
}

class PartitionClimb {
 public:
  PartitionClimb(const JointProblem& problem, const profile::LayerProfile& layers, double deadline_s,
                 Progress* progress)
      : problem_(&problem),
        layers_(&layers),
        deadline_s_(deadline_s),
        work_(progress),
        left_(std::max(kFewestRatings, kRankRatings / std::max(1, problem.ranks()))) {}

  [[nodiscard]] int tried() const { return static_cast<int>(known_.size()); }

  /// Empty where the partition is known, or no rating is left.
  std::optional<RatedPartition> rated(const profile::Partition& partition) {
    if (left_ == 0 || !known_.insert(partition).second) return std::nullopt;
    --left_;
    work_.begin("choosing a partition", -1);
    const JointBound bound =
        joint_bound(with_partition(*problem_, *layers_, partition), std::array{deadline_s_}, &work_);
    RatedPartition result{.partition = partition, .least_time_s = s_from_ps(bound.least_time_ps())};
    if (result.least_time_s <= deadline_s_) result.bound_j = bound.lower_bound_j_at(deadline_s_);
    rated_.push_back(result);
    return result;
  }

  /// Of the best bounds, best first.
  [[nodiscard]] std::vector<RatedPartition> best(std::size_t count) const {
    std::vector<RatedPartition> sorted = rated_;
    std::ranges::stable_sort(sorted, [](const RatedPartition& a, const RatedPartition& b) {
      return a.bound_j != b.bound_j ? a.bound_j < b.bound_j : a.least_time_s < b.least_time_s;
    });
    sorted.resize(std::min(count, sorted.size()));
    return sorted;
  }

  /// Goes to the best partition that moves of one layer lead to, each the best of its neighbours.
  void climb_from(RatedPartition best) {
    for (bool improved = true; improved;) {
      improved = false;
      for (const profile::Partition& next : neighbours(best.partition)) {
        const std::optional<RatedPartition> other = rated(next);
        if (!other || !is_better(*other, best)) continue;
        best = *other;
        improved = true;
      }
    }
  }

 private:
  /// One layer less on one rank and one more on another.
  [[nodiscard]] static std::vector<profile::Partition> neighbours(const profile::Partition& partition) {
    std::vector<profile::Partition> result;
    for (std::size_t from = 0; from < partition.size(); ++from) {
      for (std::size_t to = 0; to < partition.size() && partition[from] > 1; ++to) {
        if (from == to) continue;
        profile::Partition& next = result.emplace_back(partition);
        --next[from];
        ++next[to];
      }
    }
    return result;
  }

  const JointProblem* problem_;
  const profile::LayerProfile* layers_;
  double deadline_s_;
  planner::WorkReport work_;
  int left_;
  std::set<profile::Partition> known_;
  std::vector<RatedPartition> rated_;
};

}  // namespace

JointProblem with_partition(const JointProblem& problem, const profile::LayerProfile& layers,
                            const profile::Partition& partition) {
  JointProblem moved = problem;
  moved.profile = stage_profile_of(layers, partition);
  return moved;
}

PartitionChoice choose_partition(const JointProblem& problem, const profile::LayerProfile& layers,
                                 const profile::Partition& given, double deadline_s,
                                 const EnergyAtDeadline& energy_j_of, Progress* progress) {
  PartitionClimb climb(problem, layers, deadline_s, progress);
  PartitionChoice choice;
  choice.given = *climb.rated(given);
  choice.given.energy_j = energy_j_of(problem);
  RatedPartition start = choice.given;
  const std::optional<RatedPartition> balanced = climb.rated(balanced_partition(layers, problem.ranks()));
  if (balanced && is_better(*balanced, start)) start = *balanced;
  climb.climb_from(std::move(start));
  choice.chosen = choice.given;
  for (RatedPartition& other : climb.best(kSearched)) {
    if (other.partition == given) continue;
    other.energy_j = energy_j_of(with_partition(problem, layers, other.partition));
    const bool both_late = other.energy_j == choice.chosen.energy_j;  // infinite: no order keeps the deadline
    if (both_late ? is_better(other, choice.chosen) : other.energy_j < choice.chosen.energy_j) choice.chosen = other;
  }
  choice.tried = climb.tried();
  return choice;
}

}  // namespace lowgear::joint
