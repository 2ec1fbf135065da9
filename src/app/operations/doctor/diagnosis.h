#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/operations/doctor/machine_facts.h"

namespace lowgear::operations::doctor {

/// Severity of a finding.
enum class FindingLevel : unsigned char {
  works,
  limited,  ///< something that Lowgear can do does not work here; measuring does
  broken,   ///< measurements fail, or are incomplete
};
/// `works`, `limited`, `broken`.
[[nodiscard]] std::string_view name(FindingLevel level);

/// A conclusion about one part of a machine.
struct Finding {
  FindingLevel level = FindingLevel::works;
  std::string topic;  ///< `driver`, `GPU 0`, `CPU energy`, ...
  std::string text;
  std::string fix;  ///< how to fix it, a command where there is one; may be empty
};

/// Conclusions from the facts about a machine, in reading order.
[[nodiscard]] std::vector<Finding> diagnose(const MachineFacts& facts);

/// What helps on a machine where NVML cannot be opened: the nearest thing that is missing, or simulated GPUs.
[[nodiscard]] std::string driver_fix(const MachineFacts& facts);

/// Whether all that Lowgear needs to measure works: no finding is `broken`.
[[nodiscard]] bool can_measure(const std::vector<Finding>& findings);

/// The command to run next, as one line.
[[nodiscard]] std::string next_step(const MachineFacts& facts, const std::vector<Finding>& findings);

}  // namespace lowgear::operations::doctor
