#include "agent/configured_policy.h"

#include <algorithm>
#include <utility>

#include "agent/plan_follower.h"

namespace lowgear {

std::vector<std::string> controlled_gpus(const AgentConfig& config, const GpuSystem& system) {
  std::vector<std::string> uuids;
  for (const auto& gpu : system.gpus()) {
    const GpuIdentity& identity = gpu->identity();
    const bool named =
        std::ranges::any_of(config.gpus, [&](const std::string& name) { return is_called(identity, name); });
    if (config.all_gpus || named) uuids.push_back(identity.uuid);
  }
  std::ranges::sort(uuids);
  return uuids;
}

ConfiguredPolicy::ConfiguredPolicy(const AgentConfig& config, std::shared_ptr<GpuControlSystem> system,
                                   std::shared_ptr<Journal> journal, ClockGovernorOptions governor)
    : system_(std::move(system)),
      journal_(std::move(journal)),
      access_(config.allow, system_group_lookup()),
      controlled_(lowgear::controlled_gpus(config, *system_)),
      governor_(std::move(governor)) {}

AllowedRange ConfiguredPolicy::allow(const Peer& peer, const GpuIdentity& gpu) const {
  return access_.allow(peer, find_gpu(*system_, gpu.uuid));
}

std::unique_ptr<GpuWriter> ConfiguredPolicy::writer(const GpuIdentity& gpu) {
  return std::make_unique<ClockGovernor>(system_->control(gpu.uuid), journal_, governor_);
}

std::unique_ptr<UnitClocks> ConfiguredPolicy::read_plan(const PlanMessage& plan, Gpu& gpu,
                                                        const AllowedRange& allowed) const {
  return std::make_unique<PlanFollower>(plan, gpu.identity().name, gpu.supported_sm_clocks_mhz(), allowed);
}

}  // namespace lowgear
