#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/formats/json.h"
#include "base/http/client/client.h"
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

/// The agent gives no lease for now: another process holds the GPU, or the agent has too many clients.
class GpuHeld : public LeaseRefused {
 public:
  using LeaseRefused::LeaseRefused;
};

/// An administrator has ended the lease; the message says who.
class LeaseEnded : public Error {
 public:
  using Error::Error;
};

/// A lease on a GPU: lasts as long as this does, or until the agent ends it. Not safe from several threads.
class AgentConnection {
 public:
  /// Asks the agent at `socket` for the GPU. Throws GpuHeld, LeaseRefused when asking again is of no use, and Error
  /// when there is no agent or it does not answer within `timeout`.
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

/// The agent's HTTP socket: LOWGEAR_AGENT_HTTP_SOCKET, or `agent.sock` next to the lease socket. Empty where that is.
[[nodiscard]] std::filesystem::path agent_http_socket(const std::filesystem::path& lease_socket,
                                                      const Environment& environment);

/// Settings of GPUs that hold until they are changed, without units: clocks and power limits (docs/agent.md). The
/// agent sets them under a lease of this process, which it restores when the process ends. Safe from any thread, one
/// at a time.
///
/// Calls throw GpuHeld while another process has the GPU, LeaseRefused when the agent refuses for another reason, and
/// Error when no agent responds.
class AgentSettings {
 public:
  explicit AgentSettings(const std::filesystem::path& socket,
                         std::chrono::milliseconds timeout = std::chrono::seconds(5));

  /// Locks the SM clock. `gpu` is a UUID. Returns the number of the lease.
  std::uint64_t lock_clock(const std::string& gpu, int clock_mhz);
  std::uint64_t set_power_limit(const std::string& gpu, double limit_w);
  /// Throws LeaseRefused where the GPU no longer runs at the set clock: the lease has ended, or another program sets
  /// it.
  void require_held(const std::string& gpu, std::uint64_t lease);
  /// Ends the lease, and with it everything that was set on its GPU.
  void release(std::uint64_t lease);

 private:
  /// The response's body.
  Json ask(std::string_view method, const std::string& target, const std::string& body);
  std::uint64_t set(const std::string& gpu, std::string_view what, const Json& value);

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;  ///< of the connection
  http::Client agent_;
};

}  // namespace lowgear::client
