#include "control/agent/gpu/driver_thread.h"

#include <utility>

namespace lowgear::agent {

DriverThread::DriverThread(std::function<void()> run) {
  std::promise<void> ended;
  ended_ = ended.get_future();
  thread_ = std::thread([run = std::move(run), ended = std::move(ended)]() mutable {
    run();
    ended.set_value();
  });
}

DriverThread::~DriverThread() { end_until(Clock::now() + kPatience); }

void DriverThread::end_until(Clock::time_point deadline) {
  if (!thread_.joinable()) return;
  if (ended_.wait_until(deadline) == std::future_status::ready) {
    thread_.join();
  } else {
    thread_.detach();  // the driver has it
  }
}

}  // namespace lowgear::agent
