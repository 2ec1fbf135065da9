#include "agent/writing/configured_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/lease/plan_follower.h"

namespace lowgear::agent {

std::vector<std::string> controlled_gpus(const Config& config, const gpu::GpuSystem& system) {
  std::vector<std::string> uuids;
  for (const auto& gpu : system.gpus()) {
    const gpu::GpuIdentity& identity = gpu->identity();
    const bool named =
        std::ranges::any_of(config.gpus, [&](const std::string& name) { return is_called(identity, name); });
    if (config.all_gpus || named) uuids.push_back(identity.uuid);
  }
  std::ranges::sort(uuids);
  return uuids;
}

ConfiguredPolicy::ConfiguredPolicy(const Config& config, gpu::GpuControlSystem& system,
                                   std::shared_ptr<Journal> journal, ClockGovernorOptions governor)
    : journal_(std::move(journal)),
      access_(config.allow, system_group_lookup()),
      controlled_(lowgear::agent::controlled_gpus(config, system)),
      governor_(std::move(governor)) {
  for (const std::unique_ptr<gpu::Gpu>& gpu : system.gpus()) known_.emplace(gpu->identity().uuid, know(*gpu));
  for (const std::string& uuid : controlled_) controls_.emplace(uuid, system.control(uuid));
}

const KnownGpu& ConfiguredPolicy::known(const gpu::GpuIdentity& gpu) const {
  const auto found = known_.find(gpu.uuid);
  if (found == known_.end()) throw NotFound("there is no GPU " + gpu.uuid);
  return found->second;
}

AllowedRange ConfiguredPolicy::allow(const Peer& peer, const gpu::GpuIdentity& gpu) const {
  return access_.allow(peer, known(gpu));
}

std::unique_ptr<GpuWriter> ConfiguredPolicy::writer(const gpu::GpuIdentity& gpu) {
  const auto control = controls_.extract(gpu.uuid);
  if (control.empty()) throw NotFound(fmt::format("GPU {} is not controlled, or has its writer", gpu.uuid));
  return std::make_unique<ClockGovernor>(std::move(control.mapped()), journal_, governor_);
}

std::unique_ptr<UnitClocks> ConfiguredPolicy::read_plan(const ipc::PlanMessage& plan, const gpu::GpuIdentity& gpu,
                                                        const AllowedRange& allowed) const {
  return std::make_unique<PlanFollower>(plan, gpu.name, known(gpu).sm_clocks_mhz, allowed);
}

}  // namespace lowgear::agent
