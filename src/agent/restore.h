#pragma once

#include <span>
#include <string>
#include <vector>

#include "agent/journal.h"
#include "gpu/gpu_control.h"

namespace lowgear {

/// Reads how a GPU is before it is written to. Throws GpuError when the driver does not answer.
[[nodiscard]] OriginalGpuState original_state(GpuControl& control);

/// Puts a GPU back: clocks to the driver's own choice, power limit and persistence mode as they were, and reads back
/// what NVML lets read. What the GPU does not support counts as restored. Tries everything whatever fails; throws
/// GpuError with the first failure.
void restore_gpu(GpuControl& control, const OriginalGpuState& original);

/// What an agent does first: restores every GPU that the journal names, and after damage also every GPU of `controlled`
/// (UUIDs or PCI addresses). A GPU that is no longer in the machine is struck out. Returns what could not be restored,
/// one line each; the journal keeps it.
[[nodiscard]] std::vector<std::string> recover(Journal& journal, GpuControlSystem& system,
                                               std::span<const std::string> controlled);

}  // namespace lowgear
