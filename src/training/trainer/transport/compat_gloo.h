#pragma once

// c10d's Gloo in the form that the libtorch at hand has. Only gloo_transport.cpp includes this.

#include <chrono>
#include <cstdlib>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "training/trainer/transport/compat_store.h"

namespace lowgear::trainer::compat {

using GlooGroup = c10d::ProcessGroupGloo;
using GlooGroupPointer = c10::intrusive_ptr<GlooGroup>;

inline GlooGroupPointer make_gloo_group(const StorePointer& store, const std::string& name, int rank, int size,
                                        std::chrono::seconds timeout) {
  auto options = GlooGroup::Options::create();
  options->timeout = timeout;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(interface != nullptr ? GlooGroup::createDeviceForInterface(interface)
                                                  : GlooGroup::createDefaultDevice());
  return c10::make_intrusive<GlooGroup>(prefixed(store, name), rank, size, options);
}

}  // namespace lowgear::trainer::compat
