#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/marks/mark_writer.h"
#include "client/marks/stream_marks.h"
#include "client/measure/unit_log.h"

namespace lowgear::client {

struct ExpectedUnit {
  std::uint32_t microbatch = 0;
  std::uint16_t stage = 0;
  OpKind kind = OpKind::forward;
  friend bool operator==(const ExpectedUnit&, const ExpectedUnit&) = default;
};

/// The units that a rank begins in every iteration, in order, and whether it does. One thread marks, without waiting or
/// allocating; any thread may read the results.
class ExpectedUnits {
 public:
  /// From the next iteration on; nothing is expected when there are none. By the thread that marks.
  void expect(std::vector<ExpectedUnit> units, bool must_agree);
  void iteration_begins(std::uint64_t iteration) noexcept {
    iteration_ = iteration;
    next_ = 0;
    checks_ = !units_.empty();
  }
  void unit_begins(const ExpectedUnit& unit) noexcept {
    if (!checks_) [[likely]]
      return;
    if (next_ < units_.size() && units_[next_] == unit) {
      ++next_;
      return;
    }
    differ(unit);
  }
  void iteration_ends() noexcept {
    if (checks_ && next_ < units_.size()) differ(std::nullopt);
    checks_ = false;
  }

  /// Iterations with another unit than was expected, or none; what follows in such an iteration is not looked at.
  [[nodiscard]] std::uint64_t differing_iterations() const { return differing_.load(std::memory_order_relaxed); }
  /// The first difference, for a person; empty: none.
  [[nodiscard]] std::string first_difference() const;
  /// Whether one was found that must not be.
  [[nodiscard]] bool has_failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  struct Difference {
    std::uint64_t iteration = 0;
    std::size_t index = 0;
    std::optional<ExpectedUnit> expected;  ///< empty: the end of the iteration
    std::optional<ExpectedUnit> got;       ///< empty: the end of the iteration
  };
  void differ(const std::optional<ExpectedUnit>& got) noexcept;

  std::vector<ExpectedUnit> units_;
  std::size_t next_ = 0;
  std::uint64_t iteration_ = 0;
  bool checks_ = false;
  bool must_agree_ = true;
  Difference first_;  ///< written once, before `has_first_`
  std::atomic<bool> has_first_{false};
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> differing_{0};
};

/// Counts the units of each kind and stage in an iteration, for programs that do not say which microbatch they compute.
/// Neither waits nor allocates. Not safe from several threads.
class NextMicrobatches {
 public:
  /// Kinds of all stages of a rank that can be counted.
  static constexpr std::size_t kCapacity = 256;

  void begin_iteration() noexcept { ++iteration_; }
  /// Number of the microbatch that begins; empty when there are too many kinds and stages.
  [[nodiscard]] std::optional<std::uint32_t> begin(OpKind kind, std::uint16_t stage) noexcept {
    Count* const count = find(kind, stage);
    if (count == nullptr) return std::nullopt;
    return count->begun++;
  }
  /// Number of the one that began last; empty when none has.
  [[nodiscard]] std::optional<std::uint32_t> end(OpKind kind, std::uint16_t stage) noexcept {
    const Count* const count = find(kind, stage);
    if (count == nullptr || count->begun == 0) return std::nullopt;
    return count->begun - 1;
  }

 private:
  struct Count {
    std::uint64_t iteration = 0;
    std::uint32_t unit = 0;  ///< kind and stage
    std::uint32_t begun = 0;
  };

  Count* find(OpKind kind, std::uint16_t stage) noexcept {
    const std::uint32_t unit = std::uint32_t{stage} << 8U | static_cast<std::uint32_t>(kind);
    const std::size_t first = std::size_t{stage} * kOpKindCount + static_cast<std::size_t>(kind);
    for (std::size_t i = 0; i < kCapacity; ++i) {
      Count& count = counts_[(first + i) % kCapacity];
      if (count.iteration != iteration_) count = {.iteration = iteration_, .unit = unit, .begun = 0};
      if (count.unit == unit) return &count;
    }
    return nullptr;
  }

  std::array<Count, kCapacity> counts_;
  std::uint64_t iteration_ = 1;  ///< counted from 1 here; entries of another one are ignored
};

/// Marks of an iteration by the training loop.
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

  // By the thread that marks. An iteration that has not ended when the next one begins counts nowhere.
  void iteration_begin(const IterationLabel& label) noexcept;
  void iteration_end() noexcept;
  void unit_begin(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
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
  void unit_end(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
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
  /// Where marks follow a stream: waits until the GPU has done the marked work. A host runs ahead of it.
  void wait_for_gpu() const noexcept { stream_.wait_for_gpu(); }
  /// Number of the present iteration or, between two, of the next one.
  [[nodiscard]] std::uint64_t iteration() const noexcept { return iteration_; }
  /// Of the one that begins next, where the program does not number it.
  [[nodiscard]] std::uint64_t next_iteration() const noexcept { return in_iteration_ ? iteration_ + 1 : iteration_; }

  // By any.
  void watch_iterations(IterationLog* log) noexcept { writer_.watch_iterations(log); }
  [[nodiscard]] const MarkWriter& written() const { return writer_; }
  [[nodiscard]] const StreamMarks& stream() const { return stream_; }
  [[nodiscard]] const ExpectedUnits& expected() const { return expected_; }

 private:
  /// The microbatch where the program does not say it; empty, and counted as a mismatch, where it is not known.
  [[nodiscard]] std::optional<std::uint32_t> next_begin(OpKind kind, std::uint16_t stage) noexcept;
  [[nodiscard]] std::optional<std::uint32_t> next_end(OpKind kind, std::uint16_t stage) noexcept;
  void defer_unit(ipc::UnitEventType type, OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept;
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
