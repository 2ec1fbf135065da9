#include "agent/restore.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>

#include "core/error.h"

namespace lowgear {
namespace {

/// NVML tells power limits in milliwatts.
constexpr double kPowerToleranceW = 0.01;

/// The value, or nothing where the GPU does not have it.
template <typename Value>
std::optional<Value> if_supported(const std::function<Value()>& read) {
  try {
    return read();
  } catch (const GpuError& error) {
    if (error.code() == GpuErrorCode::not_supported) return std::nullopt;
    throw;
  }
}

void restore_power_limit(GpuControl& control, double power_limit_w) {
  if (std::abs(control.gpu().power_limits().current_w - power_limit_w) <= kPowerToleranceW) return;
  control.set_power_limit_w(power_limit_w);
  const double now_w = control.gpu().power_limits().current_w;
  if (std::abs(now_w - power_limit_w) > kPowerToleranceW) {
    throw GpuError(GpuErrorCode::driver_error,
                   fmt::format("GPU {}: the power limit was set back to {} W and reads {} W",
                               control.gpu().identity().uuid, power_limit_w, now_w));
  }
}

void restore_persistence_mode(GpuControl& control, bool enabled) {
  if (control.gpu().persistence_mode() != enabled) control.set_persistence_mode(enabled);
}

bool is_gone(const GpuSystem& system, const OriginalGpuState& state) {
  for (const auto& gpu : system.gpus()) {
    if (gpu->identity().uuid == state.uuid) return false;
  }
  // A lost GPU is not in the list either: it may come back, and then has to be restored.
  return system.problems().empty();
}

std::optional<std::string> restore_recorded(Journal& journal, GpuControlSystem& system, const OriginalGpuState& state) {
  try {
    if (!is_gone(system, state)) restore_gpu(*system.control(state.uuid), state);
    journal.record_restored(state.uuid);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

OriginalGpuState original_state(GpuControl& control) {
  const GpuIdentity& identity = control.gpu().identity();
  return {.uuid = identity.uuid,
          .pci_address = identity.pci_address,
          .power_limit_w = if_supported<double>([&] { return control.gpu().power_limits().current_w; }),
          .persistence_mode = if_supported<bool>([&] { return control.gpu().persistence_mode(); })};
}

void restore_gpu(GpuControl& control, const OriginalGpuState& original) {
  std::optional<GpuError> first;
  const auto attempt = [&](const std::function<void()>& step) {
    try {
      step();
    } catch (const GpuError& error) {
      if (error.code() != GpuErrorCode::not_supported && !first) first = error;
    }
  };
  // Clocks before the limit: a GPU that runs freely within its old limit is what it was.
  attempt([&] { control.reset_sm_clocks(); });
  attempt([&] { control.reset_memory_clocks(); });
  if (original.power_limit_w) attempt([&] { restore_power_limit(control, *original.power_limit_w); });
  if (original.persistence_mode) attempt([&] { restore_persistence_mode(control, *original.persistence_mode); });
  if (first) throw GpuError(*first);
}

std::vector<std::string> recover(Journal& journal, GpuControlSystem& system, std::span<const std::string> controlled) {
  std::vector<std::string> failures;
  for (const OriginalGpuState& state : journal.changed()) {
    if (auto failure = restore_recorded(journal, system, state)) failures.push_back(*std::move(failure));
  }
  if (!journal.damaged()) return failures;
  for (const std::string& name : controlled) {
    try {
      const std::unique_ptr<GpuControl> control = system.control(name);
      // What its power limit was is lost with the journal; the driver's default is the best guess.
      OriginalGpuState state = original_state(*control);
      if (state.power_limit_w) state.power_limit_w = control->gpu().power_limits().default_w;
      restore_gpu(*control, state);
    } catch (const Error& error) {
      failures.emplace_back(error.what());
    }
  }
  if (failures.empty()) journal.clear();
  return failures;
}

}  // namespace lowgear
