#pragma once

// How ranks find each other, in c10d's words. Included by the transports alone.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>

#include "training/trainer/transport/transport.h"

namespace lowgear::trainer::compat {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

inline StorePointer open_store(const Rendezvous& rendezvous, int rank, int size, std::chrono::seconds timeout) {
  StorePointer store;
  if (!rendezvous.file.empty()) {
    store = c10::make_intrusive<c10d::FileStore>(rendezvous.file.string(), size);
  } else {
    c10d::TCPStoreOptions options;
    options.port = rendezvous.port;
    options.isServer = rank == 0 && !rendezvous.hosted_elsewhere;
    options.timeout = timeout;
    store = c10::make_intrusive<c10d::TCPStore>(rendezvous.host, options);
  }
  store->setTimeout(timeout);
  return store;
}

inline StorePointer prefixed(const StorePointer& store, const std::string& name) {
  return c10::make_intrusive<c10d::PrefixStore>(name, store);
}

inline c10d::AllreduceOptions all_reduce_options(Reduction reduction) {
  c10d::AllreduceOptions options;
  options.reduceOp = reduction == Reduction::sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
  return options;
}

inline c10d::BroadcastOptions broadcast_options(int root) {
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return options;
}

inline c10d::ReduceOptions reduce_options(int root) {
  c10d::ReduceOptions options;
  options.reduceOp = c10d::ReduceOp::SUM;
  options.rootRank = root;
  return options;
}

/// Runs a call of c10d; its errors become one line that says what they mean for the job.
template <typename Call>
auto translate_errors(const std::string& whom, Call&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    throw PeerLost("lost the connection to " + whom + ": " + std::string(text.substr(0, text.find('\n'))));
  }
}

/// A transfer that c10d has begun. `Work` is a pointer to what the libtorch at hand calls work.
template <typename Work>
class StartedTransfer final : public PendingTransfer {
 public:
  /// `finish`, which may be empty, is called once the transfer is done.
  StartedTransfer(Work work, std::string whom, std::function<void()> finish)
      : work_(std::move(work)), whom_(std::move(whom)), finish_(std::move(finish)) {}
  void wait() override {
    translate_errors(whom_, [this] { return work_->wait(); });
    if (finish_) finish_();
  }

 private:
  Work work_;
  std::string whom_;
  std::function<void()> finish_;
};

/// Begins a transfer with `whom`: `call` returns c10d's work.
template <typename Call>
std::unique_ptr<PendingTransfer> start_transfer(const std::string& whom, Call&& call,
                                                std::function<void()> finish = {}) {
  auto work = translate_errors(whom, std::forward<Call>(call));
  return std::make_unique<StartedTransfer<decltype(work)>>(std::move(work), whom, std::move(finish));
}

}  // namespace lowgear::trainer::compat
