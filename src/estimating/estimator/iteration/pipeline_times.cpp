#include "estimating/estimator/iteration/pipeline_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"

namespace lowgear::estimator {

namespace {

double duration_s(const PipelineCosts& costs, const schedule::ComputeOp& op) {
  const auto stage = static_cast<std::size_t>(op.stage);
  switch (op.kind) {
    case OpKind::forward:
      return costs.forward_s[stage];
    case OpKind::backward:
      return costs.backward_s[stage];
    case OpKind::input_gradient:
      return costs.backward_s[stage] - costs.weight_gradient_s[stage];
    case OpKind::weight_gradient:
      return costs.weight_gradient_s[stage];
    case OpKind::forward_backward:
    case OpKind::recomputation:
    case OpKind::recomputing_backward:
      break;  // schedules with them are refused (training_job.h)
  }
  return 0;
}

double message_s(const PipelineCosts& costs, const schedule::ComputeOp& from) {
  const auto stage = static_cast<std::size_t>(from.stage);
  return from.kind == OpKind::forward ? costs.activation_send_s[stage] : costs.gradient_send_s[stage - 1];
}

/// The graph with an op in the middle of every edge between ranks, and what all ops take.
struct GraphWithMessages {
  schedule::PipelineDag dag;
  std::vector<double> duration_s;
};

GraphWithMessages with_messages(schedule::PipelineDag dag, const PipelineCosts& costs) {
  GraphWithMessages graph;
  for (const schedule::ComputeOp& op : dag.ops) graph.duration_s.push_back(duration_s(costs, op));
  std::vector<int> message_after(dag.ops.size(), -1);
  std::vector<schedule::DagEdge> edges;
  edges.reserve(dag.edges.size() * 2);
  const auto computations = dag.ops.size();
  for (const schedule::DagEdge& edge : dag.edges) {
    const schedule::ComputeOp from = dag.ops[static_cast<std::size_t>(edge.from)];
    if (from.rank == dag.ops[static_cast<std::size_t>(edge.to)].rank) {
      edges.push_back(edge);
      continue;
    }
    const int message = static_cast<int>(dag.ops.size());
    dag.ops.push_back(from);
    graph.duration_s.push_back(message_s(costs, from));
    message_after[static_cast<std::size_t>(edge.from)] = message;
    edges.push_back({edge.from, message});
    edges.push_back({message, edge.to});
  }
  std::ranges::stable_sort(edges, {}, &schedule::DagEdge::from);
  dag.edges = std::move(edges);
  std::vector<int> order;
  order.reserve(dag.ops.size());
  for (const int op : dag.topological_order) {
    order.push_back(op);
    const auto at = static_cast<std::size_t>(op);
    if (at < computations && message_after[at] >= 0) order.push_back(message_after[at]);
  }
  dag.topological_order = std::move(order);
  graph.dag = std::move(dag);
  return graph;
}

std::vector<double> busy_s(const PipelineCosts& costs) {
  std::vector<double> busy(static_cast<std::size_t>(costs.ranks), 0.0);
  for (int stage = 0; stage < costs.stages(); ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    busy[static_cast<std::size_t>(stage % costs.ranks)] +=
        costs.microbatches * (costs.forward_s[at] + costs.backward_s[at]);
  }
  return busy;
}

/// 1F1B, stepped. In step n rank s runs the forward of microbatch n - s and then, backward from the last rank, the
/// backward of microbatch n - (S - 1): so that all that an op waits for was computed before it.
class OneFOneB {
 public:
  explicit OneFOneB(const PipelineCosts& costs)
      : costs_(costs), ranks_(static_cast<std::size_t>(costs.ranks)), free_s_(ranks_, 0.0), sent_s_(ranks_, 0.0) {}

  PipelineTimes run() {
    const int last_step = costs_.microbatches + costs_.ranks - 2;
    for (int n = 0; n <= last_step; ++n) {
      const std::vector<double> before = free_s_;
      const std::vector<double> sent_before = sent_s_;
      step(n);
      // All ranks run a forward and a backward in every step from S - 1 to M - 1.
      if (n < costs_.ranks || n + 1 >= costs_.microbatches) continue;
      const double shift_s = free_s_[0] - before[0];
      if (shifted(before, free_s_, shift_s) && shifted(sent_before, sent_s_, shift_s)) {
        const int skipped = costs_.microbatches - 1 - n;
        for (double& time_s : free_s_) time_s += skipped * shift_s;
        for (double& time_s : sent_s_) time_s += skipped * shift_s;
        n += skipped;
      }
    }
    return {free_s_, busy_s(costs_)};
  }

 private:
  static bool shifted(const std::vector<double>& from, const std::vector<double>& to, double by) {
    constexpr double kRounding = 1e-13;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (std::abs(to[i] - from[i] - by) > kRounding * to[i]) return false;
    }
    return true;
  }

  void step(int n) {
    for (int s = costs_.ranks - 1; s >= 0; --s) {
      const int microbatch = n - s;
      if (microbatch < 0 || microbatch >= costs_.microbatches) continue;
      const auto at = static_cast<std::size_t>(s);
      const double arrival_s = s == 0 ? 0 : sent_s_[at - 1] + costs_.activation_send_s[at - 1];
      free_s_[at] = std::max(free_s_[at], arrival_s) + costs_.forward_s[at];
      sent_s_[at] = free_s_[at];
    }
    if (n - (costs_.ranks - 1) < 0) return;
    double gradient_s = 0;
    for (std::size_t at = ranks_; at-- > 0;) {
      free_s_[at] = std::max(free_s_[at], gradient_s) + costs_.backward_s[at];
      if (at > 0) gradient_s = free_s_[at] + costs_.gradient_send_s[at - 1];
    }
  }

  const PipelineCosts& costs_;
  std::size_t ranks_;
  std::vector<double> free_s_;  ///< by rank: end of what it ran last
  std::vector<double> sent_s_;  ///< by rank: end of its last forward
};

/// Whether the interleaved schedule takes this many microbatches.
bool has_equal_rounds(const PipelineCosts& costs) {
  return costs.microbatches % std::max(1, costs.microbatches / costs.ranks) == 0;
}

}  // namespace

double PipelineTimes::time_s() const { return *std::ranges::max_element(end_s); }

PipelineTimes replayed_times(const schedule::Schedule& schedule, const PipelineCosts& costs) {
  const GraphWithMessages graph = with_messages(build_dag(schedule), costs);
  std::vector<double> start_s(graph.duration_s.size());
  simulator::TimingGraph(graph.dag).start_times(graph.duration_s, start_s);
  PipelineTimes times;
  for (int rank = 0; rank < graph.dag.ranks; ++rank) {
    const auto last = static_cast<std::size_t>(graph.dag.rank_begin[static_cast<std::size_t>(rank) + 1]) - 1;
    times.end_s.push_back(start_s[last] + graph.duration_s[last]);
  }
  times.busy_s = busy_s(costs);
  return times;
}

PipelineTimes pipeline_times(const std::string& schedule, const PipelineCosts& costs) {
  if (schedule == "1f1b") return OneFOneB(costs).run();
  if (schedule == "interleaved" && costs.ranks > 1 && has_equal_rounds(costs)) {
    return {interleaved_end_s(costs), busy_s(costs)};
  }
  schedule::ScheduleRequest request{schedule, costs.ranks, costs.microbatches, costs.chunks, {}};
  for (int stage = 0; stage < costs.stages() && schedule == "envpipe"; ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    request.envpipe_stages.push_back({costs.forward_s[at], costs.backward_s[at], {}});
  }
  return replayed_times(make_schedule(request), costs);
}

namespace {

/// The interleaved schedule for some rounds of microbatches. Forwards of a rank are numbered in the order in which it
/// runs them, and so are backwards; the number says chunk and microbatch, the same ones on every rank.
class Rounds {
 public:
  Rounds(const PipelineCosts& costs, int per_round, int rounds)
      : costs_(costs),
        ranks_(static_cast<std::size_t>(costs.ranks)),
        chunks_(static_cast<std::size_t>(costs.chunks)),
        per_round_(static_cast<std::size_t>(per_round)),
        total_(chunks_ * per_round_ * static_cast<std::size_t>(rounds)),
        forward_end_s_(ranks_ * total_),
        backward_end_s_(ranks_ * total_),
        progress_(ranks_) {
    chunk_of_.reserve(total_);
    for (std::size_t number = 0; number < total_; ++number) chunk_of_.push_back(number / per_round_ % chunks_);
  }

  void run() {
    std::size_t done = 0;
    while (done < ranks_) {
      done = 0;
      for (std::size_t rank = 0; rank < ranks_; ++rank) advance(rank);
      for (std::size_t rank = ranks_; rank-- > 0;) {
        advance(rank);
        if (progress_[rank].backwards == total_) ++done;
      }
    }
  }

  [[nodiscard]] std::vector<double> end_s() const {
    std::vector<double> ends;
    for (const Progress& rank : progress_) ends.push_back(rank.free_s);
    return ends;
  }

  /// Time that a round adds to every time once rounds repeat; empty before. Times repeat for good when a whole
  /// round of forwards and of backwards comes one `shift` after the round before on every rank: each op waits for ops
  /// that are at most a round older, counted with what the first rank runs ahead.
  [[nodiscard]] std::optional<double> repeating_shift_s() const {
    const std::size_t round = chunks_ * per_round_;
    const std::size_t backwards_from = round;
    const std::size_t forwards_from = round + warmup(0) + 1;
    if (forwards_from + round > total_) return std::nullopt;
    const double shift_s = forward_end_s_[forwards_from] - forward_end_s_[forwards_from - round];
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      for (std::size_t i = 0; i < round; ++i) {
        if (!shifted(forward_end_s_, rank * total_ + forwards_from + i, round, shift_s)) return std::nullopt;
        if (!shifted(backward_end_s_, rank * total_ + backwards_from + i, round, shift_s)) return std::nullopt;
      }
    }
    return shift_s;
  }

 private:
  struct Progress {
    std::size_t forwards = 0;
    std::size_t backwards = 0;
    double free_s = 0;
  };

  static bool shifted(const std::vector<double>& times_s, std::size_t at, std::size_t by, double shift_s) {
    constexpr double kRounding = 1e-12;
    return std::abs(times_s[at] - times_s[at - by] - shift_s) <= kRounding * times_s[at];
  }

  [[nodiscard]] std::size_t warmup(std::size_t rank) const {
    return std::min(total_, (chunks_ - 1) * per_round_ + 2 * (ranks_ - 1 - rank));
  }

  /// Runs what the rank can run by now.
  void advance(std::size_t rank) {
    Progress& progress = progress_[rank];
    const std::size_t ahead = warmup(rank);
    while (progress.backwards < total_) {
      const bool forward = progress.forwards < std::min(total_, ahead + progress.backwards + 1);
      if (!(forward ? run_forward(rank, progress) : run_backward(rank, progress))) return;
    }
  }

  bool run_forward(std::size_t rank, Progress& progress) {
    const std::size_t number = progress.forwards;
    const std::size_t chunk = chunk_of_[number];
    const std::size_t stage = chunk * ranks_ + rank;
    double ready_s = 0;
    if (rank > 0 || chunk > 0) {
      const std::size_t from = rank > 0 ? rank - 1 : ranks_ - 1;
      const std::size_t before = rank > 0 ? number : number - per_round_;
      if (progress_[from].forwards <= before) return false;
      ready_s = forward_end_s_[from * total_ + before] + costs_.activation_send_s[stage - 1];
    }
    progress.free_s = std::max(progress.free_s, ready_s) + costs_.forward_s[stage];
    forward_end_s_[rank * total_ + number] = progress.free_s;
    ++progress.forwards;
    return true;
  }

  bool run_backward(std::size_t rank, Progress& progress) {
    const std::size_t number = progress.backwards;
    const std::size_t chunk = chunks_ - 1 - chunk_of_[number];
    const std::size_t stage = chunk * ranks_ + rank;
    double ready_s = 0;
    if (rank + 1 < ranks_ || chunk + 1 < chunks_) {
      const std::size_t from = rank + 1 < ranks_ ? rank + 1 : 0;
      const std::size_t before = rank + 1 < ranks_ ? number : number - per_round_;
      if (progress_[from].backwards <= before) return false;
      ready_s = backward_end_s_[from * total_ + before] + costs_.gradient_send_s[stage];
    }
    progress.free_s = std::max(progress.free_s, ready_s) + costs_.backward_s[stage];
    backward_end_s_[rank * total_ + number] = progress.free_s;
    ++progress.backwards;
    return true;
  }

  const PipelineCosts& costs_;
  std::size_t ranks_;
  std::size_t chunks_;
  std::size_t per_round_;
  std::size_t total_;                   ///< forwards of a rank
  std::vector<double> forward_end_s_;   ///< by rank and number
  std::vector<double> backward_end_s_;  ///< by rank and number
  std::vector<Progress> progress_;      ///< by rank
  std::vector<std::size_t> chunk_of_;   ///< by number: of a forward; of a backward, counted from the last
};

}  // namespace

std::vector<double> interleaved_end_s(const PipelineCosts& costs) {
  const int rounds = std::max(1, costs.microbatches / costs.ranks);
  const int per_round = costs.microbatches / rounds;
  // Enough for two rounds to compare in addition to the warmup; then many more, or all.
  for (int tried = 4; tried < rounds; tried *= 4) {
    Rounds part(costs, per_round, tried);
    part.run();
    const std::optional<double> shift_s = part.repeating_shift_s();
    if (!shift_s) continue;
    std::vector<double> ends = part.end_s();
    for (double& end_s : ends) end_s += (rounds - tried) * *shift_s;
    return ends;
  }
  Rounds all(costs, per_round, rounds);
  all.run();
  return all.end_s();
}

}  // namespace lowgear::estimator
