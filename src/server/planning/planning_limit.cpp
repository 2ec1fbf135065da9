#include "server/planning/planning_limit.h"

#include <ctime>

namespace lowgear::server {
namespace {

double thread_time_s() {
  timespec time{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

void PlanningLimit::begin(double seconds) {
  until_s_ = thread_time_s() + seconds;
  bounded_ = std::this_thread::get_id();
}

void PlanningLimit::end() { bounded_ = std::thread::id(); }

void PlanningLimit::update(std::string_view activity, double fraction) {
  switch_.update(activity, fraction);
  if (bounded_ == std::this_thread::get_id() && thread_time_s() > until_s_) throw Stopped();
}

}  // namespace lowgear::server
