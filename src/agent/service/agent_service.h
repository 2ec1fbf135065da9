#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"
#include "base/ipc/unix_socket.h"
#include "hardware/gpu/gpu.h"
#include "hardware/gpu/gpu_setting.h"

namespace lowgear::agent {

/// The caller. Over TCP the caller cannot be identified, so the agent accepts no requests there that change something.
using Peer = ipc::UnixPeer;

/// The peer lacks the right. HTTP status 403.
class AccessDenied : public Error {
 public:
  using Error::Error;
};
/// Another user or process holds the GPU. HTTP status 409.
class GpuBusy : public Error {
 public:
  using Error::Error;
};
/// No such GPU or lease. HTTP status 404.
class NotFound : public Error {
 public:
  using Error::Error;
};

/// Clocks of a GPU as the agent left them, as far as it knows.
enum class ClockState : unsigned char {
  untouched,  ///< the agent has not written
  leased,     ///< follows a lease
  restored,   ///< as before the agent wrote
  foreign,    ///< another program wrote; the agent leaves the GPU alone until the lease ends
  failed,     ///< a write or a restore failed; the agent tries again
};
[[nodiscard]] std::string_view name(ClockState state);

/// Readings of the sensors of one GPU, with their time.
struct GpuReading : gpu::GpuValues {
  std::int64_t time_ns = 0;  ///< CLOCK_REALTIME
};

/// The energy counter of a GPU, every step of which is checked.
struct EnergyCounterStatus {
  bool present = false;  ///< the GPU counts its energy, whether or not there is a reading yet
  bool works = false;    ///< the counter moves and agrees with the power readings
  std::string problem;   ///< why it does not work; empty when it does
  /// Impossible steps, and times in which it did not work, by reason. Readings leave out the steps.
  std::array<long, kEnergyFaultCount> set_aside{};
  std::string newest_set_aside;  ///< why the newest step is impossible
};

/// A GPU that a scheduler has given to a job: only its user may lease it, and no other job of that user.
struct GpuAssignment {
  uid_t uid = 0;
  std::string job;         ///< as the scheduler calls it
  std::string sluid = {};  ///< of a Slurm job, as control groups name it from 26.05 on; empty where it was not given
  friend bool operator==(const GpuAssignment&, const GpuAssignment&) = default;
};

/// One GPU as the agent's API shows it: a field for each member of its JSON (docs/agent.md).
struct GpuStatus {
  gpu::GpuIdentity identity;
  bool controlled = false;  ///< the configuration names it for control
  bool healthy = true;      ///< it answers every reading that worked when the agent started
  std::string problem;      ///< empty: none
  ClockState clock_state = ClockState::untouched;
  std::optional<int> requested_min_mhz;
  std::optional<int> requested_max_mhz;
  std::optional<gpu::PowerLimits> power_limits;
  std::optional<bool> persistence_mode;                               ///< empty when not known
  std::optional<gpu::WorkloadPowerProfiles> workload_power_profiles;  ///< empty where the GPU has none
  std::optional<gpu::PowerSmoothing> power_smoothing;                 ///< empty where the GPU has none
  EnergyCounterStatus energy_counter;
  std::uint64_t clock_writes = 0;  ///< setter calls that the driver took
  std::uint64_t clock_write_errors = 0;
  std::uint64_t late_units = 0;  ///< unit starts that came while a write was under way and were skipped
  std::optional<std::uint64_t> lease_id;
  std::optional<GpuAssignment> assignment;
  GpuReading reading;                   ///< the newest; without the energy of a counter that does not work
  std::optional<double> reading_age_s;  ///< empty: no reading yet
};

/// A GPU that the configuration or the journal names but no thread of the agent controls, usually because it did not
/// respond when the agent started.
struct UnattendedGpu {
  std::string name;           ///< UUID, or as the configuration names it; empty when not known
  bool configured = false;    ///< the configuration names it for control
  bool left_changed = false;  ///< an earlier agent changed it, and it is not restored yet; the agent keeps trying
  std::string problem;        ///< which GPU, what is wrong, and what to do, in one line
};

/// One lease as the agent's API shows it: a field for each member of its JSON.
struct LeaseStatus {
  std::uint64_t id = 0;
  std::string gpu_uuid;
  Peer owner;
  std::string user;               ///< name of the owner's uid, or the number
  std::vector<pid_t> other_pids;  ///< other processes of the user that set something on the GPU
  std::string job;
  std::optional<std::uint32_t> rank;  ///< empty: the process has set the GPU over HTTP
  bool has_plan = false;
  bool suspended = false;  ///< no unit came for longer than the limit: the SM clock goes to its default meanwhile
  double age_s = 0;
  std::uint64_t units = 0;            ///< unit starts seen
  std::uint64_t lost = 0;             ///< events overwritten before they were read
  std::uint64_t unplanned_units = 0;  ///< unit starts that the plan which is followed does not name: no clock was set
};

/// Called once, on the agent's main thread, with the result of a write: null on success; GpuError, a timeout if the
/// driver has not responded within the configured time; GpuBusy if another program sets the GPU's clocks.
using WriteDone = std::function<void(std::exception_ptr error)>;

/// The agent as its HTTP side sees it. Calls return at once and are made from the agent's main thread only.
class Service {
 public:
  virtual ~Service() = default;

  [[nodiscard]] virtual bool simulated() const = 0;
  [[nodiscard]] virtual bool dry_run() const = 0;
  [[nodiscard]] virtual std::string driver_version() const = 0;
  [[nodiscard]] virtual std::vector<GpuStatus> gpus() = 0;
  [[nodiscard]] virtual std::vector<UnattendedGpu> unattended_gpus() = 0;
  /// GPUs that the driver counted and did not show when the agent started, one line each: other processes may number
  /// those that it shows in another way.
  [[nodiscard]] virtual std::vector<std::string> hidden_gpus() const = 0;
  [[nodiscard]] virtual std::vector<LeaseStatus> leases() = 0;

  /// Sets something for a process: the first call takes a lease that lasts until the process ends or releases it.
  /// Throws AccessDenied, GpuBusy, NotFound, InputError (a value outside of the allowed range), GpuError (the driver is
  /// known to hang); the driver is then not asked, and `done` not called.
  virtual void apply(const Peer& peer, std::string_view gpu, const gpu::GpuSetting& setting, WriteDone done) = 0;
  /// Ends a lease; allowed for its owner and root. Throws AccessDenied, NotFound.
  virtual void release(const Peer& peer, std::uint64_t lease_id) = 0;
  /// Lets only the user of a job lease the GPU, and set it, until it is given back or given to another job. Leases that
  /// are held stay. Root only: throws AccessDenied; NotFound; Error when it cannot be written down.
  virtual void assign(const Peer& peer, std::string_view gpu, GpuAssignment assignment) = 0;
  /// The job's GPU is given back. Throws as `assign`, and NotFound when it is not that job's.
  virtual void give_back(const Peer& peer, std::string_view gpu, std::string_view job) = 0;
  /// The kill switch: ends every lease and restores every GPU, also unattended ones. Root only: throws
  /// AccessDenied. `done` receives GpuError naming the GPUs that are still changed.
  virtual void restore_all(const Peer& peer, WriteDone done) = 0;
  /// Whether this peer may read telemetry.
  [[nodiscard]] virtual bool may_read(const Peer& peer) const = 0;
};

}  // namespace lowgear::agent
