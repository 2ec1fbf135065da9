#include "planning/schedule/schedule_testing.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "planning/schedule/communication.h"

namespace lowgear::schedule {
namespace {

int number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// A reader of its own, so that tests of other parts do not hang on the CSV reader.
Action action_from(std::string_view text) {
  const std::size_t type = text.find_first_not_of("0123456789");
  const std::size_t microbatch = text.find_last_not_of("0123456789") + 1;
  const std::string_view name = text.substr(type, microbatch - type);
  Action action{ActionKind::compute, OpKind::forward, number(text.substr(0, type)), number(text.substr(microbatch))};
  if (name == "SEND_F") action.kind = ActionKind::send_f;
  if (name == "RECV_F") action.kind = ActionKind::recv_f;
  if (name == "SEND_B") action.kind = ActionKind::send_b;
  if (name == "RECV_B") action.kind = ActionKind::recv_b;
  if (name == "B") action.op = OpKind::backward;
  if (name == "I") action.op = OpKind::input_gradient;
  if (name == "W") action.op = OpKind::weight_gradient;
  if (name == "R") action.op = OpKind::recomputation;
  if (name == "C") action.op = OpKind::recomputing_backward;
  return action;
}

int draw(std::mt19937& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
}

std::vector<int> random_placement(int stages, int ranks, std::mt19937& random) {
  std::vector<int> rank_of;
  for (int stage = 0; stage < stages; ++stage) {
    rank_of.push_back(stage < ranks ? stage : draw(random, 0, ranks - 1));
  }
  std::shuffle(rank_of.begin(), rank_of.end(), random);
  return rank_of;
}

std::vector<ComputeOp> all_computations(const std::vector<int>& rank_of, int microbatches, std::mt19937& random) {
  std::vector<ComputeOp> ops;
  for (int stage = 0; stage < static_cast<int>(rank_of.size()); ++stage) {
    const int rank = rank_of[static_cast<std::size_t>(stage)];
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      ops.push_back({rank, stage, OpKind::forward, microbatch});
      const int how = draw(random, 0, 5);
      if (how == 5) {
        ops.push_back({rank, stage, OpKind::recomputing_backward, microbatch});
        continue;
      }
      if (how >= 3) ops.push_back({rank, stage, OpKind::recomputation, microbatch});
      if (how % 2 == 0) {
        ops.push_back({rank, stage, OpKind::backward, microbatch});
      } else {
        ops.push_back({rank, stage, OpKind::input_gradient, microbatch});
        ops.push_back({rank, stage, OpKind::weight_gradient, microbatch});
      }
    }
  }
  return ops;
}

/// Whether stage - 1 waits for what an op of this kind makes.
bool is_gradient(OpKind kind) {
  return kind == OpKind::backward || kind == OpKind::input_gradient || kind == OpKind::recomputing_backward;
}

/// Where a message's end may stand among the computations of its rank: gaps [first, last], gap i before computation i.
struct Gaps {
  int first = 0;
  int last = 0;
};

Gaps allowed_gaps(const std::vector<Action>& computations, const Action& message) {
  const bool forward = message.kind == ActionKind::send_f || message.kind == ActionKind::recv_f;
  const auto at = std::find_if(computations.begin(), computations.end(), [&](const Action& a) {
    return a.stage == message.stage && a.microbatch == message.microbatch &&
           (forward ? a.op == OpKind::forward : is_gradient(a.op));
  });
  const int index = static_cast<int>(at - computations.begin());
  if (is_send(message.kind)) return {index + 1, static_cast<int>(computations.size())};
  return {0, index};
}

/// Both ends of all messages that pass between ranks.
std::vector<Action> all_message_ends(const Schedule& schedule, const std::vector<int>& rank_of) {
  std::vector<Action> ends;
  for (int stage = 0; stage + 1 < schedule.stages; ++stage) {
    if (rank_of[static_cast<std::size_t>(stage)] == rank_of[static_cast<std::size_t>(stage) + 1]) continue;
    for (int microbatch = 0; microbatch < schedule.microbatches; ++microbatch) {
      ends.push_back({ActionKind::send_f, OpKind::forward, stage, microbatch});
      ends.push_back({ActionKind::recv_f, OpKind::forward, stage + 1, microbatch});
      ends.push_back({ActionKind::send_b, OpKind::forward, stage + 1, microbatch});
      ends.push_back({ActionKind::recv_b, OpKind::forward, stage, microbatch});
    }
  }
  return ends;
}

/// Puts each end of each message into the gap that `choose(gaps, is_send)` says; ends in one gap keep their order.
template <typename F>
Schedule place_messages(const Schedule& schedule, const std::vector<Action>& ends, F&& choose) {
  const std::vector<int> rank_of = rank_of_stage(schedule);
  std::vector<std::vector<std::vector<Action>>> gaps(schedule.ranks.size());
  for (std::size_t rank = 0; rank < gaps.size(); ++rank) gaps[rank].resize(schedule.ranks[rank].size() + 1);
  for (const Action& end : ends) {
    const auto rank = static_cast<std::size_t>(rank_of[static_cast<std::size_t>(end.stage)]);
    const Gaps allowed = allowed_gaps(schedule.ranks[rank], end);
    gaps[rank][static_cast<std::size_t>(choose(allowed, is_send(end.kind)))].push_back(end);
  }
  Schedule result{schedule.name, schedule.stages, schedule.microbatches, {}};
  for (std::size_t rank = 0; rank < gaps.size(); ++rank) {
    auto& actions = result.ranks.emplace_back();
    for (std::size_t gap = 0; gap < gaps[rank].size(); ++gap) {
      actions.insert(actions.end(), gaps[rank][gap].begin(), gaps[rank][gap].end());
      if (gap < schedule.ranks[rank].size()) actions.push_back(schedule.ranks[rank][gap]);
    }
  }
  return result;
}

}  // namespace

Schedule schedule_from(const std::vector<std::string_view>& ranks, std::string name) {
  Schedule schedule{std::move(name), 0, 0, {}};
  for (std::string_view rest : ranks) {
    auto& actions = schedule.ranks.emplace_back();
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      if (end > 0) actions.push_back(action_from(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    for (const Action& action : actions) {
      schedule.stages = std::max(schedule.stages, action.stage + 1);
      schedule.microbatches = std::max(schedule.microbatches, action.microbatch + 1);
    }
  }
  return schedule;
}

std::string row(const Schedule& schedule, int rank) {
  std::string text;
  for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)]) {
    text += (text.empty() ? "" : " ") + to_string(action);
  }
  return text;
}

bool needs_data(const ComputeOp& from, const ComputeOp& to, int stages) {
  if (from.microbatch != to.microbatch) return false;
  if (to.kind == OpKind::forward) return from.kind == OpKind::forward && from.stage == to.stage - 1;
  if (to.kind == OpKind::weight_gradient) return from.kind == OpKind::input_gradient && from.stage == to.stage;
  if (from.kind == OpKind::forward) return from.stage == to.stage;
  if (to.kind == OpKind::recomputation) return false;
  if (from.kind == OpKind::recomputation) return from.stage == to.stage && is_gradient(to.kind);
  return to.stage + 1 < stages && is_gradient(from.kind) && from.stage == to.stage + 1;
}

Schedule random_schedule(std::mt19937& random) {
  const int ranks = draw(random, 1, 4);
  const int stages = draw(random, ranks, 6);
  const int microbatches = draw(random, 1, 5);
  std::vector<ComputeOp> left = all_computations(random_placement(stages, ranks, random), microbatches, random);
  Schedule schedule{"random", stages, microbatches, {}};
  schedule.ranks.resize(static_cast<std::size_t>(ranks));
  while (!left.empty()) {
    const auto pick = left.begin() + draw(random, 0, static_cast<int>(left.size()) - 1);
    const bool waits =
        std::any_of(left.begin(), left.end(), [&](const ComputeOp& other) { return needs_data(other, *pick, stages); });
    if (waits) continue;
    schedule.ranks[static_cast<std::size_t>(pick->rank)].push_back(
        {ActionKind::compute, pick->kind, pick->stage, pick->microbatch});
    left.erase(pick);
  }
  return schedule;
}

Schedule with_random_communication(const Schedule& schedule, std::mt19937& random) {
  std::vector<Action> ends = all_message_ends(schedule, rank_of_stage(schedule));
  if (draw(random, 0, 1) == 0) std::shuffle(ends.begin(), ends.end(), random);
  const int reach = draw(random, 0, 3);
  return place_messages(schedule, ends, [&](Gaps gaps, bool send) {
    if (send) return draw(random, gaps.first, std::min(gaps.last, gaps.first + reach));
    return draw(random, std::max(gaps.first, gaps.last - reach), gaps.last);
  });
}

Schedule with_naive_communication(const Schedule& schedule) {
  std::vector<Action> ends = all_message_ends(schedule, rank_of_stage(schedule));
  std::stable_partition(ends.begin(), ends.end(), [](const Action& end) { return is_send(end.kind); });
  return place_messages(schedule, ends, [](Gaps gaps, bool send) { return send ? gaps.first : gaps.last; });
}

}  // namespace lowgear::schedule
