#include "planning/schedule/communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "planning/schedule/dag.h"

namespace lowgear::schedule {

namespace {

[[noreturn]] void refuse(const Schedule& schedule, int rank, std::size_t step, const Action& action,
                         std::string_view what) {
  throw InputError(fmt::format("{}: rank {}, step {}: {}: {}", schedule.name, rank, step, to_string(action), what));
}

bool is_forward_message(ActionKind kind) { return kind == ActionKind::send_f || kind == ActionKind::recv_f; }

/// Whether another stage may need what an op of this kind makes.
bool passes_on(OpKind kind) { return kind != OpKind::weight_gradient && kind != OpKind::recomputation; }

/// Step of each computation and of each end of each message; a message is known by the stage that sends it.
class StepTable {
 public:
  explicit StepTable(const Schedule& schedule)
      : microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        steps_(kColumns * static_cast<std::size_t>(schedule.stages) * microbatches_, kAbsent) {}

  static constexpr int kAbsent = -1;
  enum Column : std::size_t { forward, gradient, sent_f, received_f, sent_b, received_b };

  int& at(Column column, int stage, int microbatch) {
    const std::size_t pair = static_cast<std::size_t>(stage) * microbatches_ + static_cast<std::size_t>(microbatch);
    return steps_[pair * kColumns + column];
  }

 private:
  static constexpr std::size_t kColumns = 6;
  std::size_t microbatches_;
  std::vector<int> steps_;
};

StepTable::Column end_column(ActionKind kind) {
  switch (kind) {
    case ActionKind::send_f:
      return StepTable::sent_f;
    case ActionKind::recv_f:
      return StepTable::received_f;
    case ActionKind::send_b:
      return StepTable::sent_b;
    default:
      return StepTable::received_b;
  }
}

void note_computations(const Schedule& schedule, StepTable& table) {
  for (const auto& actions : schedule.ranks) {
    for (std::size_t step = 0; step < actions.size(); ++step) {
      const Action& action = actions[step];
      if (action.kind != ActionKind::compute || !passes_on(action.op)) continue;
      const auto column = action.op == OpKind::forward ? StepTable::forward : StepTable::gradient;
      table.at(column, action.stage, action.microbatch) = static_cast<int>(step);
    }
  }
}

/// Checks one end of a message against where it runs, and notes it.
void check_message(const Schedule& schedule, const std::vector<int>& rank_of, int rank, int step, StepTable& table) {
  const Action& action = schedule.ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step)];
  const auto fail = [&](std::string_view what) {
    refuse(schedule, rank, static_cast<std::size_t>(step), action, what);
  };
  const int peer = peer_stage(action);
  if (peer < 0 || peer >= schedule.stages) fail(fmt::format("there is no stage {}", peer));
  if (!is_forward_message(action.kind) && std::min(action.stage, peer) < schedule.frozen_stages) {
    fail(fmt::format("stage {} is frozen and receives no gradient", std::min(action.stage, peer)));
  }
  const int owner = rank_of[static_cast<std::size_t>(action.stage)];
  if (owner != rank) fail(fmt::format("stage {} runs on rank {}", action.stage, owner));
  if (rank_of[static_cast<std::size_t>(peer)] == rank) {
    fail(fmt::format("stages {} and {} share a rank and need no message", action.stage, peer));
  }
  const auto computation = is_forward_message(action.kind) ? StepTable::forward : StepTable::gradient;
  const int computed = table.at(computation, action.stage, action.microbatch);
  if (is_send(action.kind) && step < computed) fail(fmt::format("sent before step {} computes it", computed));
  if (!is_send(action.kind) && step > computed) fail(fmt::format("received after step {} needs it", computed));
  int& noted = table.at(end_column(action.kind), action.stage, action.microbatch);
  if (noted != StepTable::kAbsent) fail(fmt::format("occurs before, at step {}", noted));
  noted = step;
}

void require_message(const Schedule& schedule, const std::vector<int>& rank_of, const Action& send, StepTable& table) {
  const Action recv = counterpart(send);
  const int from = rank_of[static_cast<std::size_t>(send.stage)];
  const int to = rank_of[static_cast<std::size_t>(recv.stage)];
  if (from == to) return;
  for (const auto& [action, rank] : {std::pair{send, from}, std::pair{recv, to}}) {
    if (table.at(end_column(action.kind), action.stage, action.microbatch) != StepTable::kAbsent) continue;
    throw InputError(fmt::format("{}: rank {} lacks {}; write all sends and receives or none", schedule.name, rank,
                                 to_string(action)));
  }
}

/// The sending end of the message that carries what `op` makes to the stage that needs it; none where no stage does.
std::optional<Action> send_of(const ComputeOp& op, const Schedule& schedule) {
  if (!passes_on(op.kind)) return std::nullopt;
  const ActionKind kind = op.kind == OpKind::forward ? ActionKind::send_f : ActionKind::send_b;
  const Action send{kind, OpKind::forward, op.stage, op.microbatch};
  const int peer = peer_stage(send);
  const int first = kind == ActionKind::send_b ? schedule.frozen_stages : 0;
  if (peer < first || peer >= schedule.stages) return std::nullopt;
  return send;
}

int nominal_time(OpKind kind) {
  if (kind == OpKind::recomputing_backward) return 3;
  return kind == OpKind::backward ? 2 : 1;
}

/// When each op starts if every op takes its nominal time and starts as soon as it can.
std::vector<int> nominal_starts(const PipelineDag& dag) {
  std::vector<int> first_edge(dag.ops.size() + 1, 0);
  for (const DagEdge& edge : dag.edges) ++first_edge[static_cast<std::size_t>(edge.from) + 1];
  for (std::size_t op = 0; op < dag.ops.size(); ++op) first_edge[op + 1] += first_edge[op];
  std::vector<int> start(dag.ops.size(), 0);
  for (const int op : dag.topological_order) {
    const auto from = static_cast<std::size_t>(op);
    const int end = start[from] + nominal_time(dag.ops[from].kind);
    for (int edge = first_edge[from]; edge < first_edge[from + 1]; ++edge) {
      int& later = start[static_cast<std::size_t>(dag.edges[static_cast<std::size_t>(edge)].to)];
      later = std::max(later, end);
    }
  }
  return start;
}

/// A computation, or the message after it, at its place in the global order.
struct Event {
  int time = 0;
  bool computes = false;  ///< messages come first among events of one time: what they carry was made before
  int op = 0;

  [[nodiscard]] auto key() const { return std::tuple(time, computes, op); }
};

std::vector<Event> global_order(const PipelineDag& dag, const Schedule& schedule) {
  const std::vector<int> start = nominal_starts(dag);
  std::vector<Event> events;
  events.reserve(2 * dag.ops.size());
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    events.push_back({start[op], true, static_cast<int>(op)});
    if (!send_of(dag.ops[op], schedule)) continue;
    events.push_back({start[op] + nominal_time(dag.ops[op].kind), false, static_cast<int>(op)});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.key() < b.key(); });
  return events;
}

}  // namespace

int peer_stage(const Action& action) {
  const bool to_next = action.kind == ActionKind::send_f || action.kind == ActionKind::recv_b;
  return to_next ? action.stage + 1 : action.stage - 1;
}

Action counterpart(const Action& action) {
  Action other = action;
  other.stage = peer_stage(action);
  switch (action.kind) {
    case ActionKind::send_f:
      other.kind = ActionKind::recv_f;
      break;
    case ActionKind::recv_f:
      other.kind = ActionKind::send_f;
      break;
    case ActionKind::send_b:
      other.kind = ActionKind::recv_b;
      break;
    default:
      other.kind = ActionKind::send_b;
      break;
  }
  return other;
}

bool has_communication(const Schedule& schedule) {
  return std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [](const auto& actions) {
    return std::any_of(actions.begin(), actions.end(), [](const Action& a) { return is_message(a.kind); });
  });
}

Schedule with_communication(const Schedule& schedule) {
  const PipelineDag dag = build_dag(schedule);
  if (has_communication(schedule)) return schedule;
  const std::vector<int> rank_of = rank_of_stage(schedule);
  Schedule result{schedule.name, schedule.stages, schedule.microbatches, {}, schedule.frozen_stages};
  result.ranks.resize(schedule.ranks.size());
  for (const Event& event : global_order(dag, schedule)) {
    const ComputeOp& op = dag.ops[static_cast<std::size_t>(event.op)];
    auto& own = result.ranks[static_cast<std::size_t>(op.rank)];
    if (event.computes) {
      own.push_back({ActionKind::compute, op.kind, op.stage, op.microbatch});
      continue;
    }
    const Action send = *send_of(op, schedule);
    const Action recv = counterpart(send);
    const int to = rank_of[static_cast<std::size_t>(recv.stage)];
    if (to == op.rank) continue;
    own.push_back(send);
    result.ranks[static_cast<std::size_t>(to)].push_back(recv);
  }
  return result;
}

Schedule without_communication(const Schedule& schedule) {
  Schedule result{schedule.name, schedule.stages, schedule.microbatches, {}, schedule.frozen_stages};
  for (const auto& actions : schedule.ranks) {
    auto& kept = result.ranks.emplace_back();
    std::copy_if(actions.begin(), actions.end(), std::back_inserter(kept),
                 [](const Action& a) { return a.kind == ActionKind::compute; });
  }
  return result;
}

void validate_communication(const Schedule& schedule) {
  if (!has_communication(schedule)) return;
  const std::vector<int> rank_of = rank_of_stage(schedule);
  StepTable table(schedule);
  note_computations(schedule, table);
  for (int rank = 0; rank < schedule.rank_count(); ++rank) {
    const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
    for (std::size_t step = 0; step < actions.size(); ++step) {
      if (is_message(actions[step].kind)) check_message(schedule, rank_of, rank, static_cast<int>(step), table);
    }
  }
  for (int stage = 0; stage + 1 < schedule.stages; ++stage) {
    for (int microbatch = 0; microbatch < schedule.microbatches; ++microbatch) {
      require_message(schedule, rank_of, {ActionKind::send_f, OpKind::forward, stage, microbatch}, table);
      if (stage < schedule.frozen_stages) continue;
      require_message(schedule, rank_of, {ActionKind::send_b, OpKind::forward, stage + 1, microbatch}, table);
    }
  }
}

namespace {

/// One end of a message that a rank has issued.
struct IssuedEnd {
  int rank = 0;
  int step = 0;
};

/// Unpaired sends and receives from one rank to another; at least one of the two lists is empty.
struct Link {
  std::deque<IssuedEnd> sends;
  std::deque<IssuedEnd> receives;
};

/// All ranks, each going through its list as far as the others let it.
class RendezvousSimulation {
 public:
  RendezvousSimulation(const Schedule& schedule, P2pGrouping grouping)
      : schedule_(schedule), grouping_(grouping), rank_of_(rank_of_stage(schedule)), ranks_(schedule.ranks.size()) {}

  std::optional<CommunicationFault> run() {
    for (int rank = 0; rank < schedule_.rank_count(); ++rank) free_ranks_.push_back(rank);
    while (!free_ranks_.empty() && !mismatch_) {
      const int rank = free_ranks_.front();
      free_ranks_.pop_front();
      issue_next_group(rank);
    }
    if (mismatch_) return mismatch_;
    return find_cycle();
  }

 private:
  /// The group of messages that a rank is in: steps [begin, end).
  struct RankState {
    int begin = 0;
    int end = 0;
    int pending = 0;            ///< messages of the group that are not complete
    std::vector<bool> is_done;  ///< by place in the group
  };

  [[nodiscard]] const std::vector<Action>& actions(int rank) const {
    return schedule_.ranks[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const Action& action(IssuedEnd end) const {
    return actions(end.rank)[static_cast<std::size_t>(end.step)];
  }
  [[nodiscard]] int peer_rank(IssuedEnd end) const {
    return rank_of_[static_cast<std::size_t>(peer_stage(action(end)))];
  }
  [[nodiscard]] WaitingRank waiting(IssuedEnd end) const { return {end.rank, end.step, action(end), peer_rank(end)}; }

  void issue_next_group(int rank) {
    const auto& list = actions(rank);
    const int size = static_cast<int>(list.size());
    const auto message_at = [&](int step) { return is_message(list[static_cast<std::size_t>(step)].kind); };
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    int begin = state.end;
    while (begin < size && !message_at(begin)) ++begin;
    int end = std::min(begin + 1, size);
    if (grouping_ == P2pGrouping::adjacent) {
      while (end < size && message_at(end)) ++end;
    }
    state.begin = begin;
    state.end = end;
    state.pending = end - begin;
    state.is_done.assign(static_cast<std::size_t>(end - begin), false);
    for (int step = begin; step < end && !mismatch_; ++step) issue({rank, step});
  }

  void issue(IssuedEnd end) {
    const bool sends = is_send(action(end).kind);
    const int peer = peer_rank(end);
    Link& link = links_[sends ? std::pair(end.rank, peer) : std::pair(peer, end.rank)];
    auto& others = sends ? link.receives : link.sends;
    if (others.empty()) {
      (sends ? link.sends : link.receives).push_back(end);
      return;
    }
    const IssuedEnd other = others.front();
    others.pop_front();
    if (action(other) != counterpart(action(end))) {
      mismatch_ = CommunicationFault{CommunicationFault::Kind::mismatch, {waiting(other), waiting(end)}};
      return;
    }
    complete(other);
    complete(end);
  }

  void complete(IssuedEnd end) {
    RankState& state = ranks_[static_cast<std::size_t>(end.rank)];
    state.is_done[static_cast<std::size_t>(end.step - state.begin)] = true;
    if (--state.pending == 0) free_ranks_.push_back(end.rank);
  }

  /// The first message of its group that keeps the rank from continuing.
  [[nodiscard]] IssuedEnd blocked_at(int rank) const {
    const RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const auto first = std::find(state.is_done.begin(), state.is_done.end(), false);
    return {rank, state.begin + static_cast<int>(first - state.is_done.begin())};
  }

  /// With complete communication a blocked rank always waits for another blocked one: had its peer finished, the
  /// peer's end of the message would have been issued. So following who waits for whom leads into a cycle.
  [[nodiscard]] std::optional<CommunicationFault> find_cycle() const {
    const auto stuck =
        std::find_if(ranks_.begin(), ranks_.end(), [](const RankState& state) { return state.pending > 0; });
    if (stuck == ranks_.end()) return std::nullopt;
    const auto next = [&](int rank) { return peer_rank(blocked_at(rank)); };
    int rank = static_cast<int>(stuck - ranks_.begin());
    for (std::vector<bool> seen(ranks_.size(), false); !seen[static_cast<std::size_t>(rank)]; rank = next(rank)) {
      seen[static_cast<std::size_t>(rank)] = true;
    }
    int first = rank;
    for (int it = next(rank); it != rank; it = next(it)) first = std::min(first, it);
    CommunicationFault fault{CommunicationFault::Kind::deadlock, {waiting(blocked_at(first))}};
    for (int it = next(first); it != first; it = next(it)) fault.waiting.push_back(waiting(blocked_at(it)));
    return fault;
  }

  const Schedule& schedule_;
  P2pGrouping grouping_;
  std::vector<int> rank_of_;
  std::vector<RankState> ranks_;
  std::map<std::pair<int, int>, Link> links_;  ///< by (sending rank, receiving rank)
  std::deque<int> free_ranks_;
  std::optional<CommunicationFault> mismatch_;
};

}  // namespace

std::string to_string(const CommunicationFault& fault) {
  const auto where = [](const WaitingRank& end) {
    return fmt::format("step {} ({})", end.step, to_string(end.action));
  };
  if (fault.kind == CommunicationFault::Kind::mismatch) {
    const WaitingRank& one = fault.waiting.front();
    const WaitingRank& other = fault.waiting.back();
    return fmt::format("rank {} at {} is paired with rank {} at {}, which is another message", one.rank, where(one),
                       other.rank, where(other));
  }
  std::string text;
  for (const WaitingRank& end : fault.waiting) {
    text += text.empty() ? fmt::format("rank {}", end.rank) : std::string(", which");
    text += fmt::format(" waits at {} for rank {}", where(end), end.peer);
  }
  return text;
}

std::optional<CommunicationFault> find_communication_fault(const Schedule& schedule, P2pGrouping grouping) {
  validate(schedule);
  if (schedule.rank_count() > 1 && !has_communication(schedule)) {
    throw InputError(
        fmt::format("{}: has no sends and receives; add them before checking for deadlocks", schedule.name));
  }
  return RendezvousSimulation(schedule, grouping).run();
}

void require_runnable(const Schedule& schedule, P2pGrouping grouping) {
  const auto fault = find_communication_fault(schedule, grouping);
  if (!fault) return;
  const bool deadlock = fault->kind == CommunicationFault::Kind::deadlock;
  throw InputError(
      fmt::format("{}: {}: {}; reorder them, or leave out all sends and receives so that Lowgear orders them",
                  schedule.name, deadlock ? "can hang" : "messages cross", to_string(*fault)));
}

}  // namespace lowgear::schedule
