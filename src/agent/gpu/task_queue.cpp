#include "agent/gpu/task_queue.h"

#include <utility>

namespace lowgear::agent {

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

}  // namespace lowgear::agent
