#include "server/planning/work_thread.h"

#include <utility>

namespace lowgear::server {

WorkThread::WorkThread(std::function<void(std::function<void()>)> post)
    : post_(std::move(post)), thread_([this](const std::stop_token& stop) { work_until(stop); }) {}

void WorkThread::run(std::function<void()> work, std::function<void()> done) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(work), std::move(done)});
  wake_.notify_one();
}

void WorkThread::work_until(const std::stop_token& stop) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
    Piece piece = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    piece.work();
    post_(std::move(piece.done));
  }
}

}  // namespace lowgear::server
