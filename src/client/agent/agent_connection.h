#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/ipc/lease_messages.h"
#include "base/ipc/unit_ring.h"

namespace lowgear::client {

/// A unit ring that the agent has shared, in this process' memory. The agent cannot take it away: a writer may continue
/// to write when no reader is left.
class MappedUnitRing {
 public:
  /// Throws Error unless `memory` is a ring of this version whose size no process can change.
  explicit MappedUnitRing(const FileDescriptor& memory);
  ~MappedUnitRing();
  MappedUnitRing(const MappedUnitRing&) = delete;
  MappedUnitRing& operator=(const MappedUnitRing&) = delete;

  [[nodiscard]] ipc::UnitRing& ring() { return *ring_; }

 private:
  ipc::UnitRing* ring_;
};

/// The agent refused; the message is its reason.
class LeaseRefused : public Error {
 public:
  using Error::Error;
};

/// An administrator has ended the lease; the message says who.
class LeaseEnded : public Error {
 public:
  using Error::Error;
};

/// A lease on a GPU: lasts as long as this does, or until the agent ends it. Not safe from several threads.
class AgentConnection {
 public:
  /// Asks the agent at `socket` for the GPU. Throws LeaseRefused, and Error when there is no agent or it does not
  /// answer within `timeout`.
  AgentConnection(const std::filesystem::path& socket, const ipc::HelloMessage& hello,
                  std::chrono::milliseconds timeout);

  [[nodiscard]] const ipc::LeaseMessage& lease() const { return lease_; }
  [[nodiscard]] const std::shared_ptr<MappedUnitRing>& ring() const { return ring_; }
  /// Sends a plan and waits for the response. Throws LeaseEnded, and Error when the agent has ended or does not
  /// respond: the connection cannot be used any more.
  [[nodiscard]] ipc::PlanAnswer send_plan(const ipc::PlanMessage& plan, std::chrono::milliseconds timeout);
  /// Throws LeaseEnded, and Error when the agent no longer holds the other end. Does not wait.
  void check();
  /// Gives the GPU back at once, politely; the destructor does so by closing.
  void release() noexcept;

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  void connect(const std::filesystem::path& socket);
  void send_all(const std::vector<std::byte>& bytes, Deadline deadline);
  [[nodiscard]] ipc::Frame receive(Deadline deadline);
  void receive_some();
  void wait_for(short events, Deadline deadline) const;

  FileDescriptor socket_;
  ipc::FrameReader reader_;
  FileDescriptor received_;  ///< what came along with the last bytes
  ipc::LeaseMessage lease_;
  std::shared_ptr<MappedUnitRing> ring_;
};

}  // namespace lowgear::client
