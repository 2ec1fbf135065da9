#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/journal/journal.h"
#include "hardware/gpu/gpu_control.h"

namespace lowgear::agent {

struct Config;

/// Reads how a GPU is before it is written to. Throws GpuError when the driver does not respond.
[[nodiscard]] OriginalGpuState original_state(gpu::GpuControl& control);

/// Restores a GPU: clocks to the driver's default, power limit and persistence mode to their original values, verified
/// where NVML can read them. Settings that the GPU does not support count as restored. Tries everything even after a
/// failure; throws GpuError with the first failure.
void restore_gpu(gpu::GpuControl& control, const OriginalGpuState& original);

/// Restores a GPU that the journal names, and removes it from the journal; one that is no longer in the machine is only
/// removed. Returns a line on its outcome. Throws GpuError when the GPU does not answer or refuses, and Error
/// when the journal cannot be written; the journal then keeps it.
[[nodiscard]] std::string restore_recorded(Journal& journal, gpu::GpuControlSystem& system,
                                           const OriginalGpuState& state);

/// The first step of an agent: restores every GPU that the journal names. After damage it also resets every GPU of the
/// machine that the configuration names for control to the driver's defaults. `note` receives each step. Returns the
/// GPUs that could not be restored, one line each; the journal keeps them, and stays damaged if it was.
[[nodiscard]] std::vector<std::string> recover(Journal& journal, gpu::GpuControlSystem& system, const Config& config,
                                               const std::function<void(std::string_view)>& note);

}  // namespace lowgear::agent
