#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "agent/gpu/leased_units.h"
#include "agent/service/agent_service.h"
#include "base/ipc/lease_messages.h"

namespace boost::asio {
class io_context;
}

namespace lowgear::agent {

/// Decides about leases. Called on the thread of the server's io_context.
class LeaseGranter {
 public:
  virtual ~LeaseGranter() = default;

  struct Grant {
    ipc::LeaseMessage lease;
    std::shared_ptr<SharedUnitRing> ring;
  };
  /// Gives the GPU to a process that has connected. Throws Error (AccessDenied, GpuBusy, NotFound, InputError, ...)
  /// with the reason that the client receives.
  [[nodiscard]] virtual Grant open_lease(const Peer& peer, const ipc::HelloMessage& hello) = 0;
  /// Takes the plan for a lease and says later, on the same thread, what becomes of it. `reply` may be destroyed on any
  /// thread and after the io_context: it owns nothing of either.
  virtual void take_plan(std::uint64_t lease_id, ipc::PlanMessage plan, std::function<void(ipc::PlanAnswer)> reply) = 0;
  /// The connection is gone: so is the lease.
  virtual void close_lease(std::uint64_t lease_id) = 0;
};

struct LeaseServerOptions {
  std::filesystem::path socket;
  mode_t mode = 0660;
  std::optional<gid_t> group;
  /// One more takes the place of the connection that has waited longest without a lease, or is refused.
  std::size_t max_connections = 256;
  std::size_t max_frame_bytes = ipc::kMaxFrameBytes;
  std::chrono::milliseconds hello_timeout{5'000};   ///< from the connection to the lease
  std::chrono::milliseconds frame_timeout{10'000};  ///< from the first byte of a frame to its last
  std::function<void(std::string_view)> warn;       ///< receives what an operator should know; may be empty
};

/// The lease socket: the agent's end of base/ipc/lease_messages.h. Never blocks on a client: a connection that does not
/// read its responses, or sends anything but frames, is closed, and its lease ends.
class LeaseServer {
 public:
  /// Listens. Throws InputError when the socket cannot be made, or another process listens there.
  LeaseServer(boost::asio::io_context& io, LeaseGranter& granter, LeaseServerOptions options);
  ~LeaseServer();  // NOLINT(bugprone-exception-escape): see its definition
  LeaseServer(const LeaseServer&) = delete;
  LeaseServer& operator=(const LeaseServer&) = delete;

  /// Closes the connection of a lease that has ended otherwise; the granter does not learn of it.
  void close(std::uint64_t lease_id);
  /// The same for a lease that an administrator has ended: the client receives the reason, and does not request the GPU
  /// again automatically.
  void end(std::uint64_t lease_id, std::string_view reason);
  /// Closes every connection and removes the socket. The granter does not learn of it.
  void stop();
  [[nodiscard]] std::size_t connections() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lowgear::agent
