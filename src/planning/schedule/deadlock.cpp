#include "planning/schedule/deadlock.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/core/error.h"
#include "planning/schedule/communication.h"

namespace lowgear::schedule {
namespace {

/// One end of a message that a rank has issued.
struct IssuedEnd {
  int rank = 0;
  int step = 0;
};

/// What is issued on the way from one rank to another and not yet paired; only one of the two is ever filled.
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
