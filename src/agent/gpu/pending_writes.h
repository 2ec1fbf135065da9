#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "agent/service/agent_service.h"

namespace lowgear::agent {

/// Gives threads that may outlive an io_context (because the driver blocks them) safe access to it. Shared by those
/// threads and by an owner, who closes it while the io_context still exists.
class LoopGate {
 public:
  explicit LoopGate(boost::asio::io_context& io) : io_(&io) {}

  /// Has `call` made on the io_context's thread; drops it once the gate is closed. From any thread: what `call` holds
  /// may be destroyed there, and after the io_context.
  template <typename Call>
  void post(Call call) {
    const std::scoped_lock lock(mutex_);
    if (io_ != nullptr) boost::asio::post(*io_, std::move(call));
  }
  /// When this returns no thread is about to use the io_context.
  void close() {
    const std::scoped_lock lock(mutex_);
    io_ = nullptr;
  }

 private:
  std::mutex mutex_;
  boost::asio::io_context* io_;  ///< under mutex_; null once closed
};

/// The callers that wait for the result of their writes. None blocks the io_context's thread: each is called there
/// once, with the outcome or after its time limit, whichever is first. Callers that still wait when this is destroyed
/// are not called.
///
/// All calls but that of an `Outcome` are made on the thread of the io_context.
class PendingWrites {
 public:
  /// Says how a write ended; from any thread, and also after this and the io_context have gone. Only the first call
  /// counts.
  using Outcome = std::function<void(std::exception_ptr error)>;

  PendingWrites(boost::asio::io_context& io, std::chrono::milliseconds timeout)
      : io_(io), gate_(std::make_shared<LoopGate>(io)), timeout_(timeout) {}
  PendingWrites(const PendingWrites&) = delete;
  PendingWrites& operator=(const PendingWrites&) = delete;
  ~PendingWrites() { gate_->close(); }

  /// `done` is called with the outcome, or with `too_late` once the time is over.
  [[nodiscard]] Outcome add(WriteDone done, std::exception_ptr too_late);

 private:
  struct Pending;
  /// Calls the functions that still wait.
  void finish(const std::weak_ptr<Pending>& pending, const std::exception_ptr& error);

  boost::asio::io_context& io_;
  std::shared_ptr<LoopGate> gate_;
  std::chrono::milliseconds timeout_;
  std::unordered_set<std::shared_ptr<Pending>> pending_;
};

}  // namespace lowgear::agent
