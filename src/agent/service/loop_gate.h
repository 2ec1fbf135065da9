#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <mutex>
#include <utility>

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

}  // namespace lowgear::agent
