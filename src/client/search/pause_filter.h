#pragma once

#include <deque>
#include <map>

namespace lowgear::client {

/// Recognises iterations that contain something else than training, such as an evaluation or a checkpoint in a loop
/// that does not mark when its iterations end: they take over twice the median of the last ones at the same operating
/// point, or less than half of it. Before there are three of these: over 4 times, or less than a quarter, of the median
/// over all points.
class PauseFilter {
 public:
  /// An iteration at a point. Returns whether it is to be left out.
  [[nodiscard]] bool is_pause(int point, double time_s);
  /// How many were left out in a row: where there are many, the job's iterations are others now.
  [[nodiscard]] int in_a_row() const { return in_a_row_; }

 private:
  using Times = std::deque<double>;

  static void keep(Times& times, double time_s);

  std::map<int, Times> of_point_;  ///< the last ones that were not left out
  Times of_all_;
  int in_a_row_ = 0;
};

}  // namespace lowgear::client
