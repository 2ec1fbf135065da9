#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "client/marks/expected_units.h"
#include "client/marks/mark_writer.h"
#include "client/marks/next_microbatches.h"
#include "client/marks/stream_marks.h"

namespace lowgear::client {

/// What the training loop says of an iteration.
struct IterationLabel {
  std::uint64_t number = 0;
  bool settling = false;  ///< clocks have just been changed, so that it measures no clock
};

/// Which microbatch a unit is of, where the program does not say: the next one of its kind and stage in the iteration.
inline constexpr std::uint32_t kNextMicrobatch = UINT32_MAX;

/// The marks of a training loop: numbers iterations and microbatches where the program does not, compares units with
/// those that are expected, and writes marks for the agent and the recording. One thread marks, without waiting or
/// allocating. Marks of units are in the header: a call is time of the training thread.
class TrainingMarks {
 public:
  /// `lease` and `log` may be null; they live longer than this.
  TrainingMarks(AgentLease* lease, UnitLog* log, StreamMarks::OpenDriver open_driver)
      : writer_(lease, log), stream_(writer_, std::move(open_driver)) {}

  // By the thread that marks.
  void iteration_begin(const IterationLabel& label) noexcept;
  void iteration_end() noexcept;
  void unit_begin(UnitKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
    if (microbatch == kNextMicrobatch) [[unlikely]] {
      const std::optional<std::uint32_t> next = next_begin(kind, stage);
      if (!next) return;
      microbatch = *next;
    }
    expected_.unit_begins({.microbatch = microbatch, .stage = stage, .kind = kind});
    if (stream_.defers()) [[unlikely]]
      return defer_unit(ipc::UnitEventType::unit_begin, kind, stage, microbatch);
    writer_.begin_unit(kind, stage, microbatch);
  }
  void unit_end(UnitKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
    if (microbatch == kNextMicrobatch) [[unlikely]] {
      const std::optional<std::uint32_t> last = next_end(kind, stage);
      if (!last) return;
      microbatch = *last;
    }
    if (stream_.defers()) [[unlikely]]
      return defer_unit(ipc::UnitEventType::unit_end, kind, stage, microbatch);
    writer_.end_unit(kind, stage, microbatch);
  }
  void expect(std::vector<ExpectedUnit> units, bool must_agree) { expected_.expect(std::move(units), must_agree); }
  void use_stream(StreamDriver::Stream stream) { stream_.use(stream); }
  /// Where marks follow a stream: waits until the GPU has done what was marked. A host runs ahead of it.
  void wait_for_gpu() const noexcept { stream_.wait_for_gpu(); }
  /// Number of the present iteration or, between two, of the next one.
  [[nodiscard]] std::uint64_t iteration() const noexcept { return iteration_; }

  // By any.
  void watch_iterations(IterationLog* log) noexcept { writer_.watch_iterations(log); }
  [[nodiscard]] const MarkWriter& written() const { return writer_; }
  [[nodiscard]] const StreamMarks& stream() const { return stream_; }
  [[nodiscard]] const ExpectedUnits& expected() const { return expected_; }

 private:
  /// The microbatch where the program does not say it; empty, and counted as a mismatch, where it is not known.
  [[nodiscard]] std::optional<std::uint32_t> next_begin(UnitKind kind, std::uint16_t stage) noexcept;
  [[nodiscard]] std::optional<std::uint32_t> next_end(UnitKind kind, std::uint16_t stage) noexcept;
  void defer_unit(ipc::UnitEventType type, UnitKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept;
  void pass_on(const Mark& mark) noexcept {
    if (stream_.defers()) return stream_.mark(mark);
    writer_.take(mark);
  }

  std::uint64_t iteration_ = 0;
  bool in_iteration_ = false;
  NextMicrobatches next_;
  ExpectedUnits expected_;
  MarkWriter writer_;
  StreamMarks stream_;  ///< last: its thread uses the writer
};

}  // namespace lowgear::client
