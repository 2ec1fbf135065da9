#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config/config.h"
#include "agent/gpu/gpu_worker.h"
#include "agent/gpu/guarded_driver.h"
#include "agent/gpu/pending_writes.h"
#include "agent/gpu/telemetry.h"
#include "agent/lease/client_process.h"
#include "agent/lease/lease_server.h"
#include "agent/lease/lease_table.h"
#include "agent/mps/mps_sharing.h"
#include "agent/service/agent_service.h"
#include "agent/service/gpu_writer.h"
#include "agent/writing/unattended_gpus.h"

namespace lowgear::agent {

/// The agent's dependencies, replaced in tests.
struct AgentEnvironment {
  GuardedGpus gpus;
  std::shared_ptr<Policy> policy;
  std::shared_ptr<UnattendedGpus> unattended;  ///< may be null: there are none
  std::shared_ptr<GpuAssignments> assignments = std::make_shared<GpuAssignments>();
  std::vector<MpsGpu> mps_gpus;  ///< for which daemons of MPS run
  std::shared_ptr<const ProcessTable> processes = std::make_shared<SystemProcessTable>();
  std::function<void(std::string_view)> note;  ///< receives what the agent does; may be empty
  std::function<void(std::string_view)> warn;  ///< receives what should not happen; may be empty
};

/// The agent of a node: the only process that may change its GPUs. Leases each configured GPU to one process at a time,
/// lets the GPU's thread follow that process' plan, and restores the GPU when the lease ends for any reason.
///
/// All calls are made on the thread of the io_context.
class Agent final : public Service, private LeaseGranter {
 public:
  /// Throws InputError when the policy names a GPU for control that is not there.
  Agent(boost::asio::io_context& io, Options options, AgentEnvironment environment);
  /// Restores what `stop` has not.
  ~Agent() override;
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// Opens the lease socket. Throws InputError when it cannot.
  void listen();
  /// Closes the lease socket, ends every lease and restores every GPU; waits for each driver as long as the options
  /// say. Returns what could not be restored, one line each. May be called again.
  std::vector<std::string> stop();
  /// Sets the power limit of a controlled GPU for no process: it holds until the GPU is restored. What goes wrong shows
  /// in the GPU's status.
  void limit_power(std::string_view gpu, double watts);
  /// Logs which GPUs have stopped responding and which respond again, once each. Call it about every second.
  void check_health();

  [[nodiscard]] bool simulated() const override;
  [[nodiscard]] bool dry_run() const override;
  [[nodiscard]] std::string driver_version() const override;
  [[nodiscard]] std::vector<GpuStatus> gpus() override;
  [[nodiscard]] std::vector<UnattendedGpu> unattended_gpus() override;
  [[nodiscard]] std::vector<std::string> hidden_gpus() const override { return environment_.gpus.hidden(); }
  [[nodiscard]] std::vector<LeaseStatus> leases() override;
  void apply(const Peer& peer, std::string_view gpu, const gpu::GpuSetting& setting, WriteDone done) override;
  void release(const Peer& peer, std::uint64_t lease_id) override;
  void assign(const Peer& peer, std::string_view gpu, GpuAssignment assignment) override;
  void give_back(const Peer& peer, std::string_view gpu, std::string_view job) override;
  void restore_all(const Peer& peer, WriteDone done) override;
  [[nodiscard]] bool may_read(const Peer& peer) const override;

 private:
  /// One GPU of the system, in its order.
  struct Managed {
    gpu::GpuIdentity identity;
    std::unique_ptr<GpuWorker> worker;   ///< null for a GPU that is only read
    std::string silence;                 ///< as last reported
    std::string problem;                 ///< as last reported
    EnergyCounterStatus energy_counter;  ///< as last reported
  };

  [[nodiscard]] Grant open_lease(const Peer& peer, const ipc::HelloMessage& hello) override;
  void take_plan(std::uint64_t lease_id, ipc::PlanMessage plan, std::function<void(ipc::PlanAnswer)> reply) override;
  void close_lease(std::uint64_t lease_id) override;

  [[nodiscard]] std::size_t index_of(std::string_view gpu) const;
  /// Throws NotFound, AccessDenied when no user may change the GPU, and GpuError when its driver hangs.
  [[nodiscard]] std::size_t controlled_gpu(std::string_view gpu) const;
  /// Throws AccessDenied for a user who may neither read nor change this GPU, with the same message whether it exists
  /// or not.
  void require_may_know(const Peer& peer, std::string_view gpu) const;
  /// Throws GpuBusy when the GPU is assigned to a job of another user, or to another one of the same user, or it cannot
  /// be told whether to another one, which is logged once.
  void require_not_of_others(const Peer& peer, std::size_t gpu);
  Lease& add_lease(Lease request);
  /// The lease on the GPU that this process has or shares; taken when there is none. Throws as `open_lease`.
  Lease& lease_for_request(const Peer& peer, std::size_t gpu);
  void share(Lease& lease, const Peer& peer, const ProcessIdentity& process);
  [[nodiscard]] std::unique_ptr<ProcessWatch> watch(std::uint64_t lease_id, const ProcessIdentity& process);
  void process_ended(std::uint64_t lease_id, const ProcessIdentity& process);
  /// Takes it from the table and lets the GPU's thread restore.
  std::future<void> end_lease(std::uint64_t lease_id, std::string_view why);
  /// Restores under way, of the GPUs that have a thread.
  using Restores = std::vector<std::pair<const Managed*, std::future<void>>>;
  [[nodiscard]] Restores end_every_lease();
  /// GPUs that are not restored by the deadline, one line each, also those without a thread.
  [[nodiscard]] std::vector<std::string> failures_of(const Restores& restores,
                                                     std::chrono::steady_clock::time_point deadline) const;
  /// Whether the thread that writes to it is held up by the driver.
  [[nodiscard]] bool hangs(const Managed& managed) const;
  /// Why the GPU is not healthy; empty when it is.
  [[nodiscard]] std::string silence_of(std::size_t index) const;
  /// Reports that a GPU has become silent, or answers again.
  void report_silence(std::size_t index);
  /// Reports that a GPU's energy counter stopped working or works again, and the steps that were set aside.
  void report_energy(std::size_t index);
  /// Reports a GPU's problem when it changes.
  void report_problem(Managed& managed);
  [[nodiscard]] GpuStatus status_of(std::size_t index);
  void note(std::string_view text) const {
    if (environment_.note) environment_.note(text);
  }
  void warn(std::string_view text) const {
    if (environment_.warn) environment_.warn(text);
  }

  boost::asio::io_context& io_;
  std::shared_ptr<LoopGate> gate_;  ///< for the threads of the GPUs
  Options options_;
  AgentEnvironment environment_;
  std::optional<ProcessJob> own_job_;  ///< that the agent runs in
  bool told_of_unknown_job_ = false;
  std::vector<Managed> gpus_;
  LeaseTable leases_;
  std::unique_ptr<Telemetry> telemetry_;
  std::unique_ptr<LeaseServer> lease_server_;
  PendingWrites pending_writes_;
};

}  // namespace lowgear::agent
