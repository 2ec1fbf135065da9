#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lowgear::agent {

/// How long the thread of a GPU may sleep before it reads the unit ring again. Training is periodic: the begins of
/// units in one iteration predict those in the next. Near such a time the thread reads every 20 us, otherwise every 150
/// us, so that it also finds unexpected units soon.
class PollSchedule {
 public:
  static constexpr std::int64_t kFineNs = 20'000;
  static constexpr std::int64_t kCoarseNs = 150'000;
  /// Units of an iteration whose times are remembered; later ones are looked for every kCoarseNs.
  static constexpr std::size_t kMaxUnits = 1U << 16U;

  /// An iteration began: what follows is what followed its predecessor.
  void iteration_began(std::int64_t time_ns);
  void unit_began(std::int64_t time_ns);
  /// Forgets the time of the last event: the time after a pause predicts nothing.
  void pause();

  /// Times are CLOCK_MONOTONIC.
  [[nodiscard]] std::int64_t sleep_ns(std::int64_t now_ns) const;

 private:
  void passed(std::int64_t time_ns);

  std::vector<std::int64_t> gaps_ns_;  ///< from each event of the iteration to its successor, in the last iteration
  std::size_t position_ = 0;
  std::int64_t last_ns_ = 0;  ///< 0: no event since the start or a pause
};

}  // namespace lowgear::agent
