#include "server/job/clock_difference.h"

#include <algorithm>

namespace lowgear::server {

void ClockDifference::add(double sent_s, double received_s) {
  last_s_.push_back(received_s - sent_s);
  if (last_s_.size() > kMost) last_s_.pop_front();
}

double ClockDifference::behind_s() const { return last_s_.empty() ? 0 : *std::ranges::min_element(last_s_); }

}  // namespace lowgear::server
