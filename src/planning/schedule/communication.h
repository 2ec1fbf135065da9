#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/schedule/schedule.h"

namespace lowgear::schedule {

/// True for the kinds that send or receive.
[[nodiscard]] constexpr bool is_message(ActionKind kind) { return kind != ActionKind::compute; }
[[nodiscard]] constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::send_f || kind == ActionKind::send_b;
}

/// The stage at the other end of a message, which may be out of range in a schedule that was not validated.
/// `action` must be a message.
[[nodiscard]] int peer_stage(const Action& action);

/// The action at the other end of the same message: `0SEND_F3` and `1RECV_F3`. `action` must be a message.
[[nodiscard]] Action counterpart(const Action& action);

/// True when any rank sends or receives.
[[nodiscard]] bool has_communication(const Schedule& schedule);

/// The schedule with its communication written out: one send and one receive for every activation and every gradient
/// that passes between ranks. Messages between stages of one rank need none. A schedule that has communication already
/// is returned unchanged.
///
/// The order is a projection of one global order of all computations and messages onto the ranks: the computations by
/// their start in a replay where a forward takes 1, a backward 2, an input or weight gradient 1, a recomputation 1, a
/// backward that recomputes 3 and a message nothing, and every message at the end of the computation that makes its
/// data. Whatever is first in the global order and not done is next on every rank that takes part in it, so no schedule
/// with an acyclic graph can hang, even where a send blocks until it is received; and both ends of a link see the same
/// sequence of messages, so they pair correctly where tags are ignored. Messages come as early as their data exists, so
/// where they run concurrently with the computations, in one queue per pair of ranks as NCCL's do, the order of the
/// queue keeps nothing back in that replay. (To place each send after its producer and each receive before its
/// consumer, rank by rank, is not safe: plain 1F1B hangs.)
///
/// Throws InputError when the schedule is invalid or its dependencies cycle.
[[nodiscard]] Schedule with_communication(const Schedule& schedule);

/// The schedule without sends and receives.
[[nodiscard]] Schedule without_communication(const Schedule& schedule);

/// Throws InputError unless every activation and gradient that passes between ranks (none to a frozen stage) is sent
/// once, by the rank that makes it and after the computation that makes it, and received once, before the computation
/// that needs it; and unless nothing else is sent. A schedule without any communication passes. The computations must
/// be valid.
void validate_communication(const Schedule& schedule);

/// How a rank issues its sends and receives.
enum class P2pGrouping : unsigned char {
  none,     ///< one at a time: each blocks until its other end is there. What is safe here is safe when grouped
  adjacent  ///< those with no computation in between together, as PyTorch's `batch_isend_irecv` and NCCL's groups do
};

/// A rank that cannot get past a send or receive.
struct WaitingRank {
  int rank = 0;
  int step = 0;  ///< 0-based place in the rank's list
  Action action;
  int peer = 0;  ///< the rank at the other end
};

/// Why a schedule cannot run to its end.
struct CommunicationFault {
  enum class Kind : unsigned char {
    deadlock,  ///< each rank of `waiting` waits for the next one, the last for the first
    mismatch   ///< the two ends in `waiting` pair up, but they belong to different messages
  };
  Kind kind = Kind::deadlock;
  std::vector<WaitingRank> waiting;
};

/// "rank 0 waits at step 5 (0SEND_F3) for rank 1, which waits at step 2 (1SEND_B0) for rank 0".
[[nodiscard]] std::string to_string(const CommunicationFault& fault);

/// Runs the messages of all ranks and finds what stops them, if anything does. The rules are the strictest that a
/// backend may have: no buffering, so a send completes only together with its receive; and no tags, so the n-th send
/// from one rank to another pairs with the n-th receive there, whatever they carry (NCCL ignores tags). Computations
/// always end. The answer does not depend on timing: whether such a program hangs does not either.
/// Throws InputError when the schedule is invalid, or runs on several ranks and has no sends and receives.
[[nodiscard]] std::optional<CommunicationFault> find_communication_fault(const Schedule& schedule,
                                                                         P2pGrouping grouping);

/// Throws InputError with the fault, if there is one.
void require_runnable(const Schedule& schedule, P2pGrouping grouping);

}  // namespace lowgear::schedule
