#pragma once

#include <cstddef>
#include <cstdint>

#include "base/core/op_kind.h"
#include "client/measure/bounded_queue.h"

namespace lowgear::client {

enum class RecordType : std::uint8_t { unit, iteration_begin, iteration_end };

/// A unit or an iteration that is over, or an iteration that begins.
struct UnitRecord {
  std::uint64_t begin_ns = 0;  ///< CLOCK_MONOTONIC
  std::uint64_t end_ns = 0;    ///< of an iteration that begins: the same
  std::uint64_t iteration = 0;
  std::uint32_t microbatch = 0;
  std::uint32_t clock_mhz = 0;  ///< SM clock that the agent had asked for when it ended; 0: none
  std::uint16_t stage = 0;
  OpKind kind = OpKind::forward;
  RecordType type = RecordType::unit;
  bool settling = false;  ///< of an iteration in which clocks settle
};

/// Hands records from the thread that marks to the one that writes them.
using UnitLog = BoundedQueue<UnitRecord, std::size_t{1} << 15U>;
/// The same of iterations alone.
using IterationLog = BoundedQueue<UnitRecord, std::size_t{1} << 11U>;

}  // namespace lowgear::client
