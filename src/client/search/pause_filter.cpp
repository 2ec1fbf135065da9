#include "client/search/pause_filter.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lowgear::client {
namespace {

constexpr std::size_t kKept = 20;
constexpr std::size_t kLeastKnown = 3;
constexpr double kFactor = 2;
constexpr double kFactorAmongPoints = 4;

double median(const std::deque<double>& times) {
  std::vector<double> sorted(times.begin(), times.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
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
    far = is_far(time_s, median(own), kFactor);
  } else if (of_all_.size() >= kLeastKnown) {
    far = is_far(time_s, median(of_all_), kFactorAmongPoints);
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
