#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/lease/client_process.h"
#include "agent/service/agent_service.h"

namespace lowgear::agent {

/// A process that has set something on a GPU of which another one took the lease.
struct LeaseSharer {
  Peer peer;
  ProcessIdentity process;
  std::unique_ptr<ProcessWatch> watch;
};

/// One process' right to write to one GPU. A lease that was not taken over the lease socket is shared by the processes
/// of one user that set something on the GPU, and lasts until the last of them has ended.
struct Lease {
  std::uint64_t id = 0;
  std::size_t gpu = 0;  ///< place in the system's list
  Peer owner;
  std::optional<ProcessIdentity> process;  ///< empty when the agent cannot see it: the connection alone counts
  std::string job;
  std::optional<std::uint32_t> rank;  ///< empty when the lease was not taken over the lease socket
  bool connected =
      false;  ///< held by a connection to the lease socket; otherwise by the process for as long as it lives
  std::chrono::steady_clock::time_point since;
  std::unique_ptr<ProcessWatch> watch;
  std::vector<LeaseSharer> sharers;  ///< in the order in which they came
};

/// The leases that there are: one a GPU.
class LeaseTable {
 public:
  /// Gives it the next number. Throws GpuBusy when the GPU has one already, naming its owner.
  Lease& add(Lease lease);
  /// Null when there is none.
  [[nodiscard]] Lease* find(std::uint64_t id);
  [[nodiscard]] Lease* of_gpu(std::size_t gpu);
  void remove(std::uint64_t id);
  /// In the order in which they were given.
  [[nodiscard]] const std::map<std::uint64_t, Lease>& all() const { return leases_; }

 private:
  std::map<std::uint64_t, Lease> leases_;  // by number
  std::uint64_t last_id_ = 0;
};

/// The name of a user, or the number of one that has none.
[[nodiscard]] std::string user_name(uid_t uid);

/// GPUs that a scheduler has given to the jobs of users. Kept in a file, so that they hold when the agent is started
/// again, until the machine is.
class GpuAssignments {
 public:
  /// In memory alone.
  GpuAssignments() = default;
  /// Takes over the assignments in `file` that were made since this start of the machine (`boot`). A file that cannot
  /// be read counts as empty, and `damage` says why.
  GpuAssignments(std::filesystem::path file, std::string boot);

  /// The job that the GPU is assigned to; null: it is assigned to none.
  [[nodiscard]] const GpuAssignment* find(std::string_view uuid) const;
  /// Throws Error when it cannot be written, and changes nothing then.
  void set(const std::string& uuid, GpuAssignment assignment);
  /// Of this job; false when the GPU is not assigned to it. Throws as `set`.
  bool remove(const std::string& uuid, std::string_view job);
  /// Empty: the file was read.
  [[nodiscard]] const std::string& damage() const { return damage_; }

 private:
  using ByUuid = std::map<std::string, GpuAssignment, std::less<>>;

  void read();
  void keep(ByUuid gpus);

  std::filesystem::path file_;  ///< empty: none
  std::string boot_;
  ByUuid gpus_;
  std::string damage_;
};

}  // namespace lowgear::agent
