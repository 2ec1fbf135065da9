#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "agent/service/agent_service.h"
#include "agent/service/gpu_writer.h"
#include "base/core/files/user_database.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

/// Identity and possible settings of a GPU, queried once before the agent serves, so that later decisions need no
/// driver call.
struct KnownGpu {
  gpu::GpuIdentity identity;
  std::vector<int> sm_clocks_mhz;                ///< that can be locked, highest first; empty where it reported none
  std::optional<gpu::PowerLimits> power_limits;  ///< of which minimum and maximum stay; empty where it reported none
  std::string problem;                           ///< why it reported no clocks; empty when it did
};

[[nodiscard]] KnownGpu know(gpu::Gpu& gpu);

/// One entry of `allow` in the configuration, a field for each of its keys: rights of users on GPUs. Without any, no
/// user has rights.
struct AllowRule {
  std::optional<uid_t> user;  ///< exactly one of `user`, `group` and `everybody`
  std::optional<gid_t> group;
  bool everybody = false;
  std::vector<std::string> gpus;     ///< UUIDs or PCI addresses; empty: every GPU that is controlled, as `all`
  std::optional<int> min_clock_mhz;  ///< empty: the lowest that the GPU supports
  std::optional<int> max_clock_mhz;
  bool power = false;  ///< may set power limits, within:
  std::optional<double> min_power_w;
  std::optional<double> max_power_w;
  bool memory_clocks = false;            ///< may lock memory clocks
  bool persistence = false;              ///< may set persistence mode
  bool workload_power_profiles = false;  ///< may request workload power profiles
  bool power_smoothing = false;          ///< may set power smoothing
  bool control = true;                   ///< false: may only read
  bool read = true;                      ///< may read telemetry and leases
};

/// Decides by the first rule that matches a peer and a GPU. Root may always read, release and restore, but needs a rule
/// for leases, so that a job that runs as root by accident changes nothing.
class AccessRules {
 public:
  AccessRules(std::vector<AllowRule> rules, GroupLookup in_group);

  /// The peer's rights on the GPU. Throws AccessDenied, naming the missing configuration, and GpuError for a
  /// GPU that reported no clocks.
  [[nodiscard]] AllowedRange allow(const Peer& peer, const KnownGpu& gpu) const;
  [[nodiscard]] bool may_read(const Peer& peer) const;

 private:
  [[nodiscard]] bool fits(const AllowRule& rule, const Peer& peer) const;

  std::vector<AllowRule> rules_;
  GroupLookup in_group_;
};

}  // namespace lowgear::agent
