#include "client/search/pause_filter.h"

#include <cstddef>
#include <vector>

#include "base/core/numbers/median.h"

namespace lowgear::client {
namespace {

constexpr std::size_t kKept = 20;
constexpr std::size_t kLeastKnown = 3;
constexpr double kFactor = 2;
constexpr double kFactorAmongPoints = 4;

double median_of(const std::deque<double>& times) {
  return upper_median(std::vector<double>(times.begin(), times.end()));
}

bool is_far(double time_s, double usual_s, double factor) {
  return time_s > factor * usual_s || time_s < usual_s / factor;
}

}  // namespace

void PauseFilter::keep(Times& times, double time_s) {
  times.push_back(time_s);
  if (times.size() > kKept) times.pop_front();
}

bool PauseFilter::is_pause(int point, double time_s) {
  Times& own = of_point_[point];
  bool far = false;
  if (own.size() >= kLeastKnown) {
    far = is_far(time_s, median_of(own), kFactor);
  } else if (of_all_.size() >= kLeastKnown) {
    far = is_far(time_s, median_of(of_all_), kFactorAmongPoints);
  }
  if (far) {
    ++in_a_row_;
    return true;
  }
  in_a_row_ = 0;
  keep(own, time_s);
  keep(of_all_, time_s);
  return false;
}

}  // namespace lowgear::client
