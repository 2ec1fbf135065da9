#pragma once

#include <cstdint>

#include "base/ipc/unit_ring.h"
#include "client/measure/unit_kind.h"

namespace lowgear::client {

/// What the training thread says happens.
struct Mark {
  std::uint64_t time_ns = 0;  ///< CLOCK_MONOTONIC
  std::uint64_t number = 0;   ///< of the iteration, or of the unit's microbatch
  std::uint16_t stage = 0;
  UnitKind kind = UnitKind::forward;
  ipc::UnitEventType type = ipc::UnitEventType::unit_begin;
  bool settling = false;  ///< of an iteration that begins: clocks have just been changed
};

/// Who takes marks, one after the other: the agent and the recording, in the end. Does not wait or allocate.
class MarkTaker {
 public:
  virtual ~MarkTaker() = default;
  virtual void take(const Mark& mark) noexcept = 0;
};

}  // namespace lowgear::client
