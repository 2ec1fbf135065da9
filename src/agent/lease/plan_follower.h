#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/service/gpu_writer.h"
#include "base/ipc/lease_messages.h"

namespace lowgear::agent {

/// The clocks of one rank of a plan. A change of clocks takes effect milliseconds after the request. A plan that was
/// made with that latency expects the request when the unit begins; one that was made as if clocks changed at once
/// names how long before (`clock_lead_s`). Trial iterations request their clock when they begin.
class PlanFollower final : public UnitClocks {
 public:
  /// Reads the plan for a GPU. Throws InputError when it is no plan, has no such rank, is for another model of GPU, or
  /// asks for a clock, in a trial too, that the GPU does not support (unless the message takes the nearest below) or
  /// the user may not set, or for a power limit (a setting `pl:300`) that he may not set. Other settings are left
  /// alone.
  PlanFollower(const ipc::PlanMessage& message, std::string_view gpu_name, std::span<const int> supported_mhz,
               const AllowedRange& allowed);

  [[nodiscard]] std::optional<int> clock_mhz(const ipc::UnitEvent& event,
                                             std::optional<std::uint32_t> iteration) const override;
  [[nodiscard]] std::optional<int> power_limit_w(const ipc::UnitEvent& event) const override;
  [[nodiscard]] std::int64_t lead_ns() const override { return lead_ns_; }
  /// Units that it knows.
  [[nodiscard]] std::size_t units() const { return units_.size(); }

 private:
  [[nodiscard]] std::optional<int> trial_mhz(std::uint32_t iteration) const;

  /// The plan's settings for a unit.
  struct Target {
    int clock_mhz = 0;
    std::optional<int> power_limit_w;
  };
  std::unordered_map<std::uint64_t, Target> units_;
  std::vector<ipc::TrialIterations> trials_;
  std::int64_t lead_ns_ = 0;
};

}  // namespace lowgear::agent
