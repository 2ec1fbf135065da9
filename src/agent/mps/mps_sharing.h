#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/lease/client_process.h"
#include "agent/mps/mps_daemon.h"
#include "agent/service/agent_service.h"
#include "base/core/files/user_database.h"
#include "hardware/gpu/gpu.h"
#include "hardware/gpu/nvml_survey.h"

namespace lowgear::agent {

/// The request of a process: a limit on the SMs that one of its jobs may use, from the start of the job to its end.
struct MpsShareRequest {
  int percent = 100;   ///< of the GPU's SMs, 1 to 100
  std::string client;  ///< name in status and metrics, once per GPU; empty: one is made
  std::string job;     ///< whose ranks form communicators together; empty: not known
  std::optional<std::uint32_t> rank = {};
};

/// A share that was given. It reserves nothing: it is the most that the job may use, whatever others use.
struct MpsShare {
  std::uint64_t id = 0;
  std::string gpu_uuid;
  MpsShareRequest request;
  Peer owner;
  ProcessIdentity process;  ///< ends with it
  std::chrono::steady_clock::time_point since;
};

/// All shares. Pure: decides by its own members alone.
class MpsShareTable {
 public:
  /// `max_percent`: largest sum of the shares of one GPU.
  explicit MpsShareTable(int max_percent) : max_percent_(max_percent) {}

  /// Gives it the next number, and its client a name if it has none. A second share of the same process on the same
  /// GPU replaces the first. Throws GpuBusy, with the reason, where
  /// - the GPU has shares of another user: MPS serves one user at a time;
  /// - another rank of the same job has a share of the GPU: NCCL refuses two ranks of a communicator on one GPU;
  /// - the name is taken on this GPU;
  /// - the shares of the GPU would sum to more than `max_percent`.
  const MpsShare& add(MpsShare share);
  /// Null when there is none.
  [[nodiscard]] const MpsShare* find(std::uint64_t id) const;
  void remove(std::uint64_t id);
  /// In the order in which they were given.
  [[nodiscard]] const std::map<std::uint64_t, MpsShare>& all() const { return shares_; }
  /// Of all shares of the GPU, in per cent.
  [[nodiscard]] int sum_percent(std::string_view gpu_uuid) const;

 private:
  /// Throws GpuBusy where `share` may not be there together with `other`.
  static void require_together(const MpsShare& share, const MpsShare& other);

  int max_percent_;
  std::map<std::uint64_t, MpsShare> shares_;  // by number
  std::uint64_t last_id_ = 0;
};

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
  /// Ends all daemons and their clients. Returns the processes that remain, one line each.
  [[nodiscard]] std::vector<std::string> stop();

 private:
  struct Managed {
    MpsGpu gpu;
    std::unique_ptr<MpsDaemon> daemon;  ///< null where it is refused
  };

  /// Checks program and folder, and ends daemons of an earlier agent. Returns why no daemon can run.
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

/// The GPUs of these names (UUIDs or PCI addresses), each with the reason where it cannot have a daemon: it is not
/// there, no process may use it (compute mode prohibited), or MIG is on.
[[nodiscard]] std::vector<MpsGpu> find_mps_gpus(const std::vector<std::string>& names, const gpu::NvmlSurvey& survey);

}  // namespace lowgear::agent
