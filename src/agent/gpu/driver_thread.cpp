#include "agent/gpu/driver_thread.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace lowgear::agent {
namespace {

// Never false again: the end of such a thread's function is not the end of all that it destroys.
std::atomic<bool> any_abandoned{false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

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
    any_abandoned = true;
    thread_.detach();  // the driver has it
  }
}

void end_process(int code) {
  if (!any_abandoned) std::exit(code);  // NOLINT(concurrency-mt-unsafe): as a return from main
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace lowgear::agent
