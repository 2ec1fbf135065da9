#include "agent/process/preview.h"

#include <fmt/format.h>
#include <grp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "agent/lease/lease_table.h"
#include "agent/writing/configured_policy.h"
#include "agent/writing/unattended_gpus.h"

namespace lowgear::agent {
namespace {

std::string group_name(gid_t gid) {
  std::array<char, 4096> buffer{};
  group entry{};
  group* found = nullptr;
  const bool known = ::getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
  return known ? found->gr_name : std::to_string(gid);
}

std::string users_of(const AllowRule& rule) {
  if (rule.everybody) return "everybody";
  return rule.user ? "user " + user_name(*rule.user) : "group " + group_name(*rule.group);
}

bool is_for(const AllowRule& rule, const gpu::GpuIdentity& gpu) {
  return rule.gpus.empty() ||
         std::ranges::any_of(rule.gpus, [&](const std::string& name) { return name == "all" || is_called(gpu, name); });
}

std::string clocks_of(const AllowRule& rule, gpu::Gpu& gpu) {
  const std::vector<int> clocks_mhz = gpu.supported_sm_clocks_mhz();
  if (clocks_mhz.empty()) return "no SM clocks, as the GPU names none that can be locked";
  return fmt::format("SM clocks of {} to {} MHz", std::max(clocks_mhz.back(), rule.min_clock_mhz.value_or(0)),
                     std::min(clocks_mhz.front(), rule.max_clock_mhz.value_or(clocks_mhz.front())));
}

std::string power_of(const AllowRule& rule, gpu::Gpu& gpu) {
  const gpu::PowerLimits limits = gpu.power_limits();
  return fmt::format("a power limit of {} to {} W", std::max(limits.min_w, rule.min_power_w.value_or(0)),
                     std::min(limits.max_w, rule.max_power_w.value_or(limits.max_w)));
}

/// What one rule lets its users set on one GPU, or why that cannot be said.
std::string rights_of(const AllowRule& rule, gpu::Gpu& gpu) {
  if (!rule.control) return rule.read ? "would allow only reading" : "would allow neither setting nor reading";
  try {
    std::string rights = "would set " + clocks_of(rule, gpu);
    if (rule.power) rights += ", " + power_of(rule, gpu);
    if (rule.memory_clocks) rights += ", memory clocks";
    if (rule.persistence) rights += ", persistence mode";
    if (rule.workload_power_profiles) rights += ", workload power profiles";
    if (rule.power_smoothing) rights += ", power smoothing";
    return rights + ", as their processes request, and restore them when those end";
  } catch (const gpu::GpuError& error) {
    return fmt::format("would set nothing: {}", error.what());
  }
}

std::string lines_of(const Config& config, gpu::Gpu& gpu, bool controlled) {
  const gpu::GpuIdentity& identity = gpu.identity();
  std::string text =
      fmt::format("GPU {}: {}, {}, {}\n", identity.index, identity.name, identity.uuid, identity.pci_address);
  if (!controlled) return text + "  would only read it: no [[gpu]] of the configuration names it\n";
  bool anybody = false;
  for (const AllowRule& rule : config.allow) {
    if (!is_for(rule, identity)) continue;
    text += fmt::format("  for {}: {}\n", users_of(rule), rights_of(rule, gpu));
    anybody = true;
  }
  return anybody ? text : text + "  would only read it: no [[allow]] of the configuration lets anyone set it\n";
}

std::string sockets_of(const ProcessOptions& process) {
  std::string text = fmt::format("would take leases at {} (mode {:04o}) and answer HTTP at {} (mode {:04o})",
                                 process.agent.lease_server.socket.string(), process.agent.lease_server.mode,
                                 process.http_socket.string(), process.http_mode);
  if (process.http_port) text += fmt::format(" and, for reading only, at 127.0.0.1:{}", *process.http_port);
  if (process.metrics) {
    text += fmt::format(", and to every machine metrics and health at {} port {}", process.metrics->address,
                        process.metrics->port);
  }
  return text + "\n";
}

std::string mps_of(const MpsOptions& options) {
  std::string text;
  for (const std::string& gpu : options.gpus) {
    text += fmt::format(
        "would run {} for GPU {}, with directories below {} for group {}, and give shares of up to {} % "
        "in all\n",
        options.program.string(), gpu, options.folder.string(), group_name(options.group), options.max_percent);
  }
  return text;
}

}  // namespace

std::string preview_of_agent(const Config& config, const gpu::GpuSystem& system) {
  std::string text = system.simulated() ? "simulated GPUs\n" : "";
  const std::vector<std::string> controlled = controlled_gpus(config, system);
  for (const auto& gpu : system.gpus()) {
    text += lines_of(config, *gpu, std::ranges::find(controlled, gpu->identity().uuid) != controlled.end());
  }
  for (const UnattendedGpu& gpu : find_unattended_gpus(config, system, Journal(discarding_journal()))) {
    text += gpu.problem + "\n";
  }
  return text + mps_of(config.process.mps) + sockets_of(config.process);
}

}  // namespace lowgear::agent
