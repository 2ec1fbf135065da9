#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/schedule/schedule.h"

namespace lowgear::schedule {

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
