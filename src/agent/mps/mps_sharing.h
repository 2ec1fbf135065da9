#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mps/mps_daemon.h"
#include "agent/mps/mps_options.h"
#include "agent/mps/mps_share.h"
#include "base/core/files/user_database.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

/// A GPU that the configuration names for MPS.
struct MpsGpu {
  gpu::GpuIdentity identity;
  std::string refusal;  ///< why it cannot have a daemon; empty when it can
};

/// One daemon as the agent's API shows it.
struct MpsDaemonStatus {
  std::string gpu_uuid;
  int gpu_index = 0;  ///< negative: there is no such GPU
  MpsState state = MpsState::refused;
  pid_t pid = 0;  ///< 0 while there is none
  int restarts = 0;
  std::string problem;  ///< empty while it runs
  std::string pipe_directory;
  int sum_percent = 0;  ///< of the shares that were given
};

/// What MpsSharing needs from outside.
struct MpsEnvironment {
  std::shared_ptr<const ProcessTable> processes = std::make_shared<SystemProcessTable>();
  GroupLookup in_group;
  MpsDaemon::Messages messages;
};

/// The daemons of the configured GPUs, and the shares that processes hold. All calls are made on the thread of the
/// io_context.
class MpsSharing {
 public:
  /// Ends what an earlier agent has left and starts the daemons. Where the program is not there, or other users may
  /// change it or the folder, it starts none, and the status says why.
  MpsSharing(boost::asio::io_context& io, MpsOptions options, const std::vector<MpsGpu>& gpus,
             MpsEnvironment environment);
  MpsSharing(const MpsSharing&) = delete;
  MpsSharing& operator=(const MpsSharing&) = delete;

  [[nodiscard]] std::vector<MpsDaemonStatus> daemons() const;
  [[nodiscard]] const MpsShareTable& shares() const { return shares_; }
  /// Gives a share until the calling process ends. `leases` are those of the agent. Throws AccessDenied, NotFound,
  /// GpuBusy as MpsShareTable, also when a lease on the GPU is of another rank of the same job, and GpuError where no
  /// daemon runs.
  const MpsShare& open(const Peer& peer, std::string_view gpu, MpsShareRequest request,
                       const std::vector<LeaseStatus>& leases);
  /// Throws NotFound, and AccessDenied for another user than the owner and root. The job keeps its limit until it ends.
  void close(const Peer& peer, std::uint64_t share_id);
  /// The variables that a job has to be started with.
  [[nodiscard]] std::map<std::string, std::string> environment_of(const MpsShare& share) const;
  /// Ends all daemons, with what uses them. Returns what is left, one line each.
  [[nodiscard]] std::vector<std::string> stop();

 private:
  struct Managed {
    MpsGpu gpu;
    std::unique_ptr<MpsDaemon> daemon;  ///< null where it is refused
  };

  /// Checks program and folder, and ends what is left. Returns why there can be no daemon.
  [[nodiscard]] std::string prepare();
  [[nodiscard]] const Managed& find(std::string_view gpu) const;
  void require_may_share(const Peer& peer) const;

  boost::asio::io_context& io_;
  MpsOptions options_;
  MpsEnvironment environment_;
  std::vector<Managed> gpus_;
  MpsShareTable shares_;
  std::map<std::uint64_t, std::unique_ptr<ProcessWatch>> watches_;  // by number of the share
};

}  // namespace lowgear::agent
