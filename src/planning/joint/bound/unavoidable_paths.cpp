#include "planning/joint/bound/unavoidable_paths.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>

namespace lowgear::joint {
namespace {

constexpr std::array kWholeKinds = {OpKind::forward, OpKind::backward};
constexpr std::array kSplitKinds = {OpKind::forward, OpKind::input_gradient, OpKind::weight_gradient};

/// Counts the ops of one path.
class PathBuilder {
 public:
  PathBuilder(const OrderFreedom& freedom, int rank, PathBegin begin)
      : freedom_(&freedom), rank_(rank), begin_(begin), ops_(freedom.groups()) {}

  PathBuilder& add(int rank, OpKind kind, int ops, int weight = 1) {
    ops_[freedom_->group(rank, kind)][weight] += ops;
    return *this;
  }
  /// One microbatch's forwards of the stages [begin, end).
  PathBuilder& forwards(int begin, int end, int weight = 1) { return chain(begin, end, OpKind::forward, weight); }
  /// One microbatch's backwards, or input gradients, of the stages [begin, end).
  PathBuilder& backwards(int begin, int end, int weight = 1) { return chain(begin, end, backward_kind(), weight); }
  /// What follows the input gradient of stage 0: its weight gradient.
  PathBuilder& last_weight_gradient() {
    if (freedom_->splits_backward) add(freedom_->rank_of_stage.front(), OpKind::weight_gradient, 1);
    return *this;
  }
  [[nodiscard]] OpKind backward_kind() const {
    return freedom_->splits_backward ? OpKind::input_gradient : OpKind::backward;
  }
  [[nodiscard]] UnavoidablePath ending_with(PathEnd end, int parallel = 1) const {
    UnavoidablePath path{.rank = rank_, .begin = begin_, .end = end, .parallel = parallel, .ops = {}};
    for (const auto& of_weight : ops_) {
      auto& group = path.ops.emplace_back();
      for (const auto& [weight, ops] : of_weight) {
        if (ops > 0) group.push_back({ops, weight});
      }
    }
    return path;
  }

 private:
  PathBuilder& chain(int begin, int end, OpKind kind, int weight) {
    for (int stage = begin; stage < end; ++stage) {
      add(freedom_->rank_of_stage[static_cast<std::size_t>(stage)], kind, 1, weight);
    }
    return *this;
  }

  const OrderFreedom* freedom_;
  int rank_;
  PathBegin begin_;
  std::vector<std::map<int, int, std::greater<>>> ops_;  ///< by group: ops by weight
};

/// What one rank's paths are made of.
struct RankWork {
  int rank = 0;
  int first_stage = 0;  ///< of the rank's
  int last_stage = 0;
  int stages = 0;  ///< of the whole pipeline
  int ops = 0;     ///< of each kind on the rank
  int held = 0;    ///< forwards that memory lets it run before its first backward is done: fewer than `ops`, or all
};

RankWork work_of(const OrderFreedom& freedom, int rank) {
  const auto& rank_of_stage = freedom.rank_of_stage;
  const auto first = std::ranges::find(rank_of_stage, rank);
  const auto last = std::find(rank_of_stage.rbegin(), rank_of_stage.rend(), rank);
  const int ops = freedom.ops_of_a_group();
  return {.rank = rank,
          .first_stage = static_cast<int>(first - rank_of_stage.begin()),
          .last_stage = static_cast<int>(rank_of_stage.rend() - last) - 1,
          .stages = static_cast<int>(rank_of_stage.size()),
          .ops = ops,
          .held = std::min(ops, freedom.most_activations[static_cast<std::size_t>(rank)])};
}

PathBuilder path_from(const OrderFreedom& freedom, const RankWork& work, PathBegin begin) {
  PathBuilder path(freedom, work.rank, begin);
  if (begin == PathBegin::first_forward) {
    path.forwards(0, work.first_stage);
  } else {
    path.forwards(0, work.stages).backwards(work.last_stage + 1, work.stages);
  }
  return path;
}

/// Forwards of the rank that come after the begin.
int forwards_after(const RankWork& work, PathBegin begin) {
  return begin == PathBegin::first_forward ? work.ops : work.ops - work.held;
}

/// To the end of the rank's work. Weight gradients may be the last of it, or something else of which the way back is
/// then still to be gone.
void add_until_last_op(const OrderFreedom& freedom, const RankWork& work, PathBegin begin,
                       std::vector<UnavoidablePath>& paths) {
  PathBuilder path = path_from(freedom, work, begin);
  path.add(work.rank, OpKind::forward, forwards_after(work, begin)).add(work.rank, path.backward_kind(), work.ops);
  if (freedom.splits_backward) {
    PathBuilder all = path;
    paths.push_back(all.add(work.rank, OpKind::weight_gradient, work.ops).ending_with(PathEnd::last_op));
  }
  path.backwards(0, work.first_stage);
  if (work.first_stage > 0) path.last_weight_gradient();
  paths.push_back(path.ending_with(PathEnd::last_backward));
}

/// To the rank's last forward, and from there the way of its microbatch to the end. Before it, memory asks for all but
/// `held` of the rank's other ops.
void add_until_last_forward(const OrderFreedom& freedom, const RankWork& work, PathBegin begin,
                            std::vector<UnavoidablePath>& paths) {
  const int released = work.ops - work.held;
  if (released <= 0) return;
  PathBuilder path = path_from(freedom, work, begin);
  path.add(work.rank, OpKind::forward, forwards_after(work, begin) - 1).add(work.rank, path.backward_kind(), released);
  if (freedom.splits_backward) path.add(work.rank, OpKind::weight_gradient, released);
  path.forwards(work.last_stage, work.stages).backwards(0, work.stages).last_weight_gradient();
  paths.push_back(path.ending_with(PathEnd::last_forward));
}

/// Activations in the rank's memory: each stage and microbatch from its forward, there and back, to the end of its
/// backward. No place in memory is used before the first forward has come or while the last gradient goes back.
UnavoidablePath held_activations(const OrderFreedom& freedom, const RankWork& work) {
  const int places = freedom.most_activations[static_cast<std::size_t>(work.rank)];
  PathBuilder path(freedom, work.rank, PathBegin::first_forward);
  path.forwards(0, work.first_stage, places);
  if (!freedom.splits_backward) path.backwards(0, work.first_stage, places);
  int holding = 0;  // stages of the rank up to this one: all of them hold a microbatch that is there
  for (int stage = work.first_stage; stage < work.stages; ++stage) {
    const int rank = freedom.rank_of_stage[static_cast<std::size_t>(stage)];
    if (rank == work.rank) ++holding;
    path.add(rank, OpKind::forward, freedom.microbatches, holding);
    path.add(rank, path.backward_kind(), freedom.microbatches, holding);
  }
  if (freedom.splits_backward) path.add(work.rank, OpKind::weight_gradient, work.ops);
  return path.ending_with(PathEnd::activations, places);
}

/// Whether every op of `a` is in `b`, of paths that are one each.
bool is_part(const UnavoidablePath& a, const UnavoidablePath& b) {
  if (a.parallel != 1 || b.parallel != 1) return false;
  const auto count = [](const std::vector<WeightedOps>& ops) { return ops.empty() ? 0 : ops.front().ops; };
  return std::ranges::equal(a.ops, b.ops, std::ranges::less_equal(), count, count);
}

std::vector<UnavoidablePath> without_parts(std::span<const UnavoidablePath> paths) {
  std::vector<UnavoidablePath> kept;
  for (const UnavoidablePath& path : paths) {
    if (std::ranges::any_of(kept, [&](const UnavoidablePath& other) { return is_part(path, other); })) continue;
    std::erase_if(kept, [&](const UnavoidablePath& other) { return is_part(other, path); });
    kept.push_back(path);
  }
  return kept;
}

}  // namespace

std::span<const OpKind> OrderFreedom::kinds() const {
  if (splits_backward) return kSplitKinds;
  return kWholeKinds;
}

std::size_t OrderFreedom::group(int rank, OpKind kind) const {
  const auto all = kinds();
  return (static_cast<std::size_t>(rank) * all.size()) +
         static_cast<std::size_t>(std::ranges::find(all, kind) - all.begin());
}

std::vector<UnavoidablePath> unavoidable_paths(const OrderFreedom& freedom) {
  std::vector<UnavoidablePath> paths;
  for (int rank = 0; rank < freedom.ranks(); ++rank) {
    const RankWork work = work_of(freedom, rank);
    for (const PathBegin begin : {PathBegin::first_forward, PathBegin::first_backward}) {
      add_until_last_op(freedom, work, begin, paths);
      add_until_last_forward(freedom, work, begin, paths);
    }
    paths.push_back(held_activations(freedom, work));
  }
  return without_parts(paths);
}

}  // namespace lowgear::joint
