#include "agent/service/access.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace lowgear::agent {

KnownGpu know(gpu::Gpu& gpu) {
  KnownGpu known{.identity = gpu.identity(), .sm_clocks_mhz = {}, .power_limits = {}, .problem = {}};
  try {
    known.sm_clocks_mhz = gpu.supported_sm_clocks_mhz();
  } catch (const gpu::GpuError& error) {
    known.problem = error.what();
  }
  try {
    known.power_limits = gpu.power_limits();
  } catch (const gpu::GpuError&) {
    // Then no user may set one.
  }
  return known;
}

namespace {

bool names(const AllowRule& rule, const gpu::GpuIdentity& gpu) {
  return rule.gpus.empty() ||
         std::ranges::any_of(rule.gpus, [&](const std::string& name) { return name == "all" || is_called(gpu, name); });
}

}  // namespace

AccessRules::AccessRules(std::vector<AllowRule> rules, GroupLookup in_group)
    : rules_(std::move(rules)), in_group_(std::move(in_group)) {}

bool AccessRules::fits(const AllowRule& rule, const Peer& peer) const {
  if (rule.everybody) return true;
  if (rule.user) return *rule.user == peer.uid;
  return rule.group && (*rule.group == peer.gid || in_group_(peer.uid, *rule.group));
}

AllowedRange AccessRules::allow(const Peer& peer, const KnownGpu& gpu) const {
  for (const AllowRule& rule : rules_) {
    if (!fits(rule, peer) || !names(rule, gpu.identity)) continue;
    if (!rule.control) break;
    const std::vector<int>& clocks_mhz = gpu.sm_clocks_mhz;
    if (!gpu.problem.empty()) {
      throw gpu::GpuError(gpu::GpuErrorCode::driver_error,
                          fmt::format("{}, when the agent started; restart it when the GPU responds", gpu.problem));
    }
    AllowedRange range;
    if (!clocks_mhz.empty()) {
      range.min_clock_mhz = std::max(clocks_mhz.back(), rule.min_clock_mhz.value_or(0));
      range.max_clock_mhz = std::min(clocks_mhz.front(), rule.max_clock_mhz.value_or(clocks_mhz.front()));
    }
    range.memory_clocks = rule.memory_clocks;
    range.persistence = rule.persistence;
    range.workload_power_profiles = rule.workload_power_profiles;
    range.power_smoothing = rule.power_smoothing;
    range.power = rule.power && gpu.power_limits;
    if (range.power) {
      range.min_power_w = std::max(gpu.power_limits->min_w, rule.min_power_w.value_or(0));
      range.max_power_w = std::min(gpu.power_limits->max_w, rule.max_power_w.value_or(gpu.power_limits->max_w));
    }
    return range;
  }
  throw AccessDenied(
      fmt::format("user {} may not change GPU {}; the agent's configuration needs an entry of allow for the user or "
                  "one of its groups",
                  peer.uid, gpu.identity.uuid));
}

bool AccessRules::may_read(const Peer& peer) const {
  if (peer.uid == 0 || peer.uid == ::geteuid()) return true;
  const auto first = std::ranges::find_if(rules_, [&](const AllowRule& rule) { return fits(rule, peer); });
  return first != rules_.end() && first->read;
}

}  // namespace lowgear::agent
