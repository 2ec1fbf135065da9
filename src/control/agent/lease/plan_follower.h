#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ipc/lease_messages.h"
#include "control/agent/service/gpu_writer.h"

namespace lowgear::agent {

/// The clocks of one rank of a plan. The clock of a unit is requested when the unit begins. A setter takes
/// milliseconds, so the start of the unit still runs at the previous clock; an earlier request would only change the
/// clock of the previous unit. Trial iterations request their clock when they begin.
class PlanFollower final : public UnitClocks {
 public:
  /// Reads the plan for a GPU. Throws InputError when it is no plan, has no such rank, is for another model of GPU, or
  /// asks for a clock, in a trial too, that the GPU does not support (unless the message takes the nearest below) or
  /// the user may not set.
  PlanFollower(const ipc::PlanMessage& message, std::string_view gpu_name, std::span<const int> supported_mhz,
               const AllowedRange& allowed);

  [[nodiscard]] std::optional<int> clock_mhz(const ipc::UnitEvent& event) override;
  /// Units that it knows.
  [[nodiscard]] std::size_t units() const { return clocks_mhz_.size(); }

 private:
  std::unordered_map<std::uint64_t, int> clocks_mhz_;  ///< by unit
  std::vector<ipc::TrialIterations> trials_;
  std::optional<int> trial_mhz_;  ///< of the iteration under way
};

}  // namespace lowgear::agent
