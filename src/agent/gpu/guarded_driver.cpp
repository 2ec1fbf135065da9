#include "agent/gpu/guarded_driver.h"

#include <fmt/format.h>
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

std::future<void> TaskQueue::post(std::function<void()> task) {
  Task queued(std::move(task));
  std::future<void> done = queued.get_future();
  const std::scoped_lock lock(mutex_);
  tasks_.push_back(std::move(queued));
  call();
  return done;
}

void TaskQueue::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_.store(true, std::memory_order_release);
  call();
}

void TaskQueue::call() {
  called_.store(true, std::memory_order_release);
  wake_.notify_all();
}

std::optional<TaskQueue::Task> TaskQueue::next() {
  if (!called()) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  if (stopped()) return std::nullopt;
  if (tasks_.empty()) {
    called_.store(false, std::memory_order_release);
    return std::nullopt;
  }
  std::optional<Task> task(std::move(tasks_.front()));
  tasks_.pop_front();
  return task;
}

void TaskQueue::wait() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return called(); });
}

bool TaskQueue::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, time, [this] { return called(); });
}

std::size_t GuardedGpus::index_of(std::string_view uuid_or_pci_address) const {
  std::string known;
  for (std::size_t index = 0; index < identities_.size(); ++index) {
    const gpu::GpuIdentity& identity = identities_[index];
    if (is_called(identity, uuid_or_pci_address)) return index;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", identity.uuid, identity.pci_address);
  }
  throw InputError(fmt::format("there is no GPU {}; {}", quote(uuid_or_pci_address),
                               known.empty() ? "this machine has none" : "those of this machine are " + known));
}

}  // namespace lowgear::agent
