#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/config/config.h"
#include "agent/journal/journal.h"
#include "agent/service/access.h"
#include "agent/service/gpu_writer.h"
#include "agent/writing/clock_governor.h"
#include "hardware/gpu/gpu_control.h"

namespace lowgear::agent {

/// UUIDs of the GPUs that a configuration names for control, as far as they are present.
[[nodiscard]] std::vector<std::string> controlled_gpus(const Config& config, const gpu::GpuSystem& system);

/// Implements the configuration through NVML with a journal. GPUs are queried at construction, and later only by the
/// writers.
class ConfiguredPolicy final : public Policy {
 public:
  ConfiguredPolicy(const Config& config, gpu::GpuControlSystem& system, std::shared_ptr<Journal> journal,
                   ClockGovernorOptions governor);

  [[nodiscard]] std::vector<std::string> controlled_gpus() const override { return controlled_; }
  [[nodiscard]] AllowedRange allow(const Peer& peer, const gpu::GpuIdentity& gpu) const override;
  [[nodiscard]] bool may_read(const Peer& peer) const override { return access_.may_read(peer); }
  [[nodiscard]] bool dry_run() const override { return governor_.dry_run; }
  /// Once for each GPU.
  [[nodiscard]] std::unique_ptr<GpuWriter> writer(const gpu::GpuIdentity& gpu) override;
  [[nodiscard]] std::unique_ptr<UnitClocks> read_plan(const ipc::PlanMessage& plan, const gpu::GpuIdentity& gpu,
                                                      const AllowedRange& allowed) const override;

 private:
  /// Throws NotFound.
  [[nodiscard]] const KnownGpu& known(const gpu::GpuIdentity& gpu) const;

  std::shared_ptr<Journal> journal_;
  AccessRules access_;
  std::vector<std::string> controlled_;
  std::map<std::string, KnownGpu, std::less<>> known_;  ///< by UUID
  std::map<std::string, std::unique_ptr<gpu::GpuControl>, std::less<>>
      controls_;  ///< of writers that are not taken yet
  ClockGovernorOptions governor_;
};

}  // namespace lowgear::agent
