#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ipc/unit_ring.h"

namespace lowgear::agent {

/// What a training process begins next, and when. Training is periodic: an iteration has the units of its predecessor
/// in the same order, and about the same time apart. Says how long the thread of a GPU may sleep before it reads the
/// unit ring again, and which units to ask clocks for ahead.
class UnitForecast {
 public:
  static constexpr std::int64_t kFineNs = 20'000;
  static constexpr std::int64_t kCoarseNs = 150'000;
  /// Units of an iteration that are remembered; later ones are looked for every kCoarseNs, and are not expected.
  static constexpr std::size_t kMaxUnits = 1U << 16U;
  /// So many begins are expected ahead, at most.
  static constexpr std::size_t kMaxAhead = 256;

  /// An iteration began: what follows is what followed its predecessor.
  void iteration_began(std::int64_t time_ns);
  /// A unit_begin.
  void unit_began(std::int64_t time_ns, const ipc::UnitEvent& event);
  /// Forgets the time of the last event: the time after a pause predicts nothing.
  void pause();

  /// Near a time when a unit is expected the thread reads every kFineNs, otherwise every kCoarseNs, so that it also
  /// finds unexpected units soon. Times are CLOCK_MONOTONIC.
  [[nodiscard]] std::int64_t sleep_ns(std::int64_t now_ns) const;

  struct Expected {
    ipc::UnitEvent unit;  ///< a unit_begin without its time
    bool in_next_iteration = false;
  };
  /// The newest unit that is expected to have begun by `until_ns`, which is not before `now_ns`, if all units begin as
  /// early as 99 of 100 do, but none earlier than its mean by more than 1/32 of its gap. What is overdue is expected
  /// now. Empty: no unit begins until then but those that have, or the iteration under way does not resemble its
  /// predecessor.
  [[nodiscard]] std::optional<Expected> newest_by(std::int64_t now_ns, std::int64_t until_ns) const;

 private:
  /// The begin of a unit or of the next iteration, and its time after the begin before it.
  struct Step {
    std::uint64_t unit = 0;         ///< packed, without its time; 0: the next iteration
    std::int64_t gap_ns = -1;       ///< mean of recent ones, since one much shorter; below 0: not known
    std::int64_t deviation_ns = 0;  ///< mean absolute error of the forecast

    [[nodiscard]] bool is_known() const { return gap_ns >= 0; }
    void learn(std::int64_t measured_gap_ns);
    [[nodiscard]] std::int64_t earliest_ns() const;
  };

  void passed(std::int64_t time_ns, std::uint64_t unit);

  std::vector<Step> steps_;      ///< of the last iteration as far as they are not yet those of the present one
  std::size_t position_ = 0;     ///< in `steps_`: the next
  std::int64_t last_ns_ = 0;     ///< 0: no event since the start or a pause
  bool resembles_last_ = false;  ///< the iteration under way its predecessor, so far
};

}  // namespace lowgear::agent
