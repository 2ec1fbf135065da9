#include "agent/writing/restore.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>

#include "agent/config/config.h"
#include "agent/writing/configured_policy.h"
#include "base/core/error.h"

namespace lowgear::agent {
namespace {

/// NVML tells power limits in milliwatts.
constexpr double kPowerToleranceW = 0.01;

/// The value, or nothing where the GPU does not have it.
template <typename Value>
std::optional<Value> if_supported(const std::function<Value()>& read) {
  try {
    return read();
  } catch (const gpu::GpuError& error) {
    if (error.code() == gpu::GpuErrorCode::not_supported) return std::nullopt;
    throw;
  }
}

/// The same for what few GPUs have: one that did not have it when it was opened is not asked again, as drivers report
/// that in different ways, and what is not known to work cannot have been set.
template <typename Value>
std::optional<Value> if_supported(const gpu::Gpu& gpu, gpu::GpuFeature feature, const std::function<Value()>& read) {
  return works(gpu, feature) ? if_supported<Value>(read) : std::nullopt;
}

void restore_power_limit(gpu::GpuControl& control, double power_limit_w) {
  if (std::abs(control.gpu().power_limits().current_w - power_limit_w) <= kPowerToleranceW) return;
  control.apply(gpu::SetPowerLimit{power_limit_w});
  const double now_w = control.gpu().power_limits().current_w;
  if (std::abs(now_w - power_limit_w) > kPowerToleranceW) {
    throw gpu::GpuError(gpu::GpuErrorCode::driver_error,
                        fmt::format("GPU {}: the power limit was set back to {} W and reads {} W",
                                    control.gpu().identity().uuid, power_limit_w, now_w));
  }
}

void restore_persistence_mode(gpu::GpuControl& control, bool enabled) {
  if (control.gpu().persistence_mode() != enabled) control.apply(gpu::SetPersistenceMode{enabled});
}

void restore_power_profiles(gpu::GpuControl& control, const gpu::WorkloadPowerProfileSet& profiles) {
  if (control.gpu().workload_power_profiles().requested == profiles) return;
  control.apply(gpu::RequestWorkloadPowerProfiles{.profiles = profiles, .allow_conflicts = true});
  const gpu::WorkloadPowerProfileSet now = control.gpu().workload_power_profiles().requested;
  if (now != profiles) {
    throw gpu::GpuError(gpu::GpuErrorCode::driver_error,
                        fmt::format("GPU {}: the workload power profiles were set back to {} and read {}",
                                    control.gpu().identity().uuid, gpu::to_string(profiles), gpu::to_string(now)));
  }
}

OriginalPowerSmoothing smoothing_of(gpu::Gpu& gpu) {
  const gpu::PowerSmoothing now = gpu.power_smoothing();
  return {.enabled = now.enabled, .preset = now.active_preset};
}

/// Sets the preset only if it is another: a driver may refuse that while power smoothing is off.
void restore_power_smoothing(gpu::GpuControl& control, const OriginalPowerSmoothing& original) {
  const OriginalPowerSmoothing now = smoothing_of(control.gpu());
  if (now == original) return;
  const bool other_preset = now.preset != original.preset;
  control.apply(gpu::SetPowerSmoothing{.enabled = original.enabled,
                                       .preset = other_preset ? original.preset : std::optional<int>()});
}

bool is_there(const gpu::GpuSystem& system, const OriginalGpuState& state) {
  return std::ranges::any_of(system.gpus(), [&](const auto& gpu) { return gpu->identity().uuid == state.uuid; });
}

/// Whether the configuration lets any user set this; without rules it is not known who could.
bool may_have_set(const Config& config, bool AllowRule::*right) {
  return config.allow.empty() || std::ranges::any_of(config.allow, right);
}

/// Restores a GPU of which only is known that it may have been changed. Returns what has been done, in one line.
std::string restore_unrecorded(gpu::GpuControl& control, const Config& config) {
  // How it was is lost with the journal; the driver's defaults are the best guess.
  OriginalGpuState state = original_state(control);
  std::string done = fmt::format("GPU {}: restored, its power limit to the driver's default", state.uuid);
  if (state.power_limit_w) state.power_limit_w = control.gpu().power_limits().default_w;
  if (state.persistence_mode.value_or(false) && may_have_set(config, &AllowRule::persistence)) {
    state.persistence_mode = false;
    done += " and its persistence mode to off, which is the default (nvidia-smi -pm 1 sets it)";
  }
  auto& profiles = state.workload_power_profiles;
  if (profiles && profiles->any() && may_have_set(config, &AllowRule::workload_power_profiles)) {
    done += fmt::format(" and its workload power profiles to none (requested were {})", gpu::to_string(*profiles));
    profiles->reset();
  }
  auto& smoothing = state.power_smoothing;
  if (smoothing && smoothing->enabled && may_have_set(config, &AllowRule::power_smoothing)) {
    smoothing->enabled = false;
    done += " and its power smoothing to off";
  }
  restore_gpu(control, state);
  return done;
}

/// Restores one GPU. Returns what has been done, in one line; throws Error.
using Restore = std::function<std::string()>;

/// Runs each on a thread of its own, so that a driver that hangs on one GPU leaves no other changed. Tells `note` what
/// has been done, as it is, and returns what has failed, in the order of the restores.
std::vector<std::string> run_concurrently(const std::vector<Restore>& restores,
                                          const std::function<void(std::string_view)>& note) {
  std::mutex mutex;  // of `note`
  std::vector<std::optional<std::string>> problems(restores.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < restores.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        const std::string done = restores[i]();
        const std::lock_guard lock(mutex);
        note(done);
      } catch (const std::exception& error) {
        problems[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> failures;
  for (std::optional<std::string>& problem : problems) {
    if (problem) failures.push_back(*std::move(problem));
  }
  return failures;
}

/// GPUs of the configuration that may be in the machine, and changed, though the driver does not show them; one line
/// each. Where the driver shows every GPU that it counts, one that is not among them is not in the machine.
std::vector<std::string> silent_gpus(const Config& config, const gpu::GpuSystem& system) {
  const std::vector<std::string> problems = system.problems();
  std::vector<std::string> silent;
  const auto add = [&](std::string_view gpu, std::string_view problem) {
    silent.push_back(fmt::format("{} may be changed and does not respond, so it is not restored ({})", gpu, problem));
  };
  if (problems.empty()) return silent;
  for (const std::string& name : config.gpus) {
    const bool shown =
        std::ranges::any_of(system.gpus(), [&](const auto& gpu) { return is_called(gpu->identity(), name); });
    if (!shown) add(fmt::format("GPU {}:", name), fmt::to_string(fmt::join(problems, "; ")));
  }
  if (config.all_gpus) {
    for (const std::string& problem : problems) add("a GPU", problem);
  }
  return silent;
}

}  // namespace

OriginalGpuState original_state(gpu::GpuControl& control) {
  const gpu::GpuIdentity& identity = control.gpu().identity();
  return {.uuid = identity.uuid,
          .pci_address = identity.pci_address,
          .power_limit_w = if_supported<double>([&] { return control.gpu().power_limits().current_w; }),
          .persistence_mode = if_supported<bool>([&] { return control.gpu().persistence_mode(); }),
          .workload_power_profiles = if_supported<gpu::WorkloadPowerProfileSet>(
              control.gpu(), gpu::GpuFeature::workload_power_profiles,
              [&] { return control.gpu().workload_power_profiles().requested; }),
          .power_smoothing = if_supported<OriginalPowerSmoothing>(control.gpu(), gpu::GpuFeature::power_smoothing,
                                                                  [&] { return smoothing_of(control.gpu()); })};
}

void restore_gpu(gpu::GpuControl& control, const OriginalGpuState& original) {
  std::optional<gpu::GpuError> first;
  const auto attempt = [&](const std::function<void()>& step) {
    try {
      step();
    } catch (const gpu::GpuError& error) {
      if (error.code() != gpu::GpuErrorCode::not_supported && !first) first = error;
    }
  };
  // Clocks before the limit: a GPU that runs freely within its old limit is what it was.
  attempt([&] { control.apply(gpu::ResetSmClocks{}); });
  attempt([&] { control.apply(gpu::ResetMemoryClocks{}); });
  if (original.power_limit_w) attempt([&] { restore_power_limit(control, *original.power_limit_w); });
  if (original.workload_power_profiles) {
    attempt([&] { restore_power_profiles(control, *original.workload_power_profiles); });
  }
  if (original.power_smoothing) attempt([&] { restore_power_smoothing(control, *original.power_smoothing); });
  if (original.persistence_mode) attempt([&] { restore_persistence_mode(control, *original.persistence_mode); });
  if (first) throw gpu::GpuError(*first);
}

std::string restore_recorded(Journal& journal, gpu::GpuControlSystem& system, const OriginalGpuState& state) {
  const bool there = is_there(system, state);
  // A lost GPU is not in the list either: it may come back, and then has to be restored.
  if (const std::vector<std::string> problems = system.problems(); !there && !problems.empty()) {
    throw gpu::GpuError(gpu::GpuErrorCode::gpu_lost,
                        fmt::format("GPU {}: was left changed and does not respond, so it is not restored ({})",
                                    state.uuid, fmt::join(problems, "; ")));
  }
  if (there) restore_gpu(*system.control(state.uuid), state);
  journal.record_restored(state.uuid);
  return fmt::format("GPU {}: {}", state.uuid,
                     there ? "restored" : "is no longer in this machine; there is nothing to restore");
}

std::vector<std::string> recover(Journal& journal, gpu::GpuControlSystem& system, const Config& config,
                                 const std::function<void(std::string_view)>& note) {
  std::vector<Restore> recorded;
  const std::vector<OriginalGpuState> changed = journal.changed();
  for (const OriginalGpuState& state : changed) {
    note(fmt::format("GPU {}: was left changed; restoring it", state.uuid));
    recorded.emplace_back([&journal, &system, state] { return restore_recorded(journal, system, state); });
  }
  std::vector<std::string> failures = run_concurrently(recorded, note);
  if (!journal.damaged()) return failures;
  note("the journal is damaged; restoring every GPU that may be changed");
  std::vector<Restore> unrecorded;
  const std::vector<std::string> controlled = controlled_gpus(config, system);
  for (const auto& gpu : system.gpus()) {
    const std::string& uuid = gpu->identity().uuid;
    if (std::ranges::find(changed, uuid, &OriginalGpuState::uuid) != changed.end()) continue;  // it is as it was
    if (std::ranges::find(controlled, uuid) != controlled.end()) {
      unrecorded.emplace_back([&, uuid] { return restore_unrecorded(*system.control(uuid), config); });
    } else {
      note(
          fmt::format("GPU {}: left as it is, as the configuration does not name it; lowgear agent restore --journal "
                      "{} restores every GPU",
                      uuid, config.journal.string()));
    }
  }
  std::ranges::move(run_concurrently(unrecorded, note), std::back_inserter(failures));
  std::ranges::move(silent_gpus(config, system), std::back_inserter(failures));
  if (failures.empty() && journal.unwritable().empty()) journal.clear();
  return failures;
}

}  // namespace lowgear::agent
