#pragma once

#include "base/core/files/file_descriptor.h"
#include "base/ipc/unit_ring.h"

namespace lowgear::agent {

/// A unit ring in memory that the agent shares with one training process: a memfd whose size is sealed, so that the
/// client cannot truncate it (which would kill the agent with SIGBUS).
class SharedUnitRing {
 public:
  /// Throws Error when the system has no descriptor or memory left.
  SharedUnitRing();
  ~SharedUnitRing();
  SharedUnitRing(const SharedUnitRing&) = delete;
  SharedUnitRing& operator=(const SharedUnitRing&) = delete;

  [[nodiscard]] ipc::UnitRing& ring() { return *ring_; }
  /// To be handed to the client.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  FileDescriptor descriptor_;
  ipc::UnitRing* ring_ = nullptr;
};

}  // namespace lowgear::agent
