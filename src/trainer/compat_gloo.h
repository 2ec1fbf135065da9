#pragma once

// c10d with Gloo: what differs between the versions of libtorch. Only gloo_transport.cpp includes this.

#include <cstdlib>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "trainer/gloo_transport.h"

namespace lowgear::compat {

using GlooGroup = c10d::ProcessGroupGloo;
using GlooGroupPointer = c10::intrusive_ptr<GlooGroup>;
using StorePointer = c10::intrusive_ptr<c10d::Store>;
using WorkPointer = decltype(std::declval<GlooGroup&>().barrier());

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

inline GlooGroupPointer make_gloo_group(const StorePointer& store, const std::string& name, int rank, int size,
                                        std::chrono::seconds timeout) {
  auto options = GlooGroup::Options::create();
  options->timeout = timeout;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(interface != nullptr ? GlooGroup::createDeviceForInterface(interface)
                                                  : GlooGroup::createDefaultDevice());
  return c10::make_intrusive<GlooGroup>(c10::make_intrusive<c10d::PrefixStore>(name, store), rank, size, options);
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

}  // namespace lowgear::compat
