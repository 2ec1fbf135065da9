#include <exception>
#include <memory>
#include <string>

#include "base/core/error.h"
#include "hardware/simgpu/lowgear_simgpu.h"
#include "hardware/simgpu/simulated_machine.h"

// The C interface of lowgear_simgpu.h. Part of the shared library only: nothing throws across it.

namespace {

/// Of the calling thread's last failure.
std::string& last_error() {
  thread_local std::string message;
  return message;
}

/// The machine that the environment names: opened on first use; tried again when that failed.
lowgear::simgpu::SimulatedMachine& machine() {
  static const std::unique_ptr<lowgear::simgpu::SimulatedMachine> opened = [] {
    try {
      return lowgear::simgpu::SimulatedMachine::from_environment();
    } catch (const lowgear::InputError& error) {
      throw lowgear::Error(error.what());  // not the fault of this call's arguments
    }
  }();
  return *opened;
}

/// Runs a call and turns what it throws into a code.
template <typename Call>
int guarded(Call&& call) noexcept {
  try {
    last_error().clear();
    call();
    return LOWGEAR_SIMGPU_OK;
  } catch (const lowgear::InputError& error) {
    last_error() = error.what();
    return LOWGEAR_SIMGPU_INVALID;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return LOWGEAR_SIMGPU_FAILED;
  }
}

template <typename Value>
Value& target(Value* pointer) {
  if (pointer == nullptr) throw lowgear::InputError("the pointer for the result is null");
  return *pointer;
}

}  // namespace

#define LOWGEAR_EXPORT extern "C" __attribute__((visibility("default")))

LOWGEAR_EXPORT uint32_t lowgear_simgpu_version(void) { return LOWGEAR_SIMGPU_VERSION; }

LOWGEAR_EXPORT const char* lowgear_simgpu_error(void) { return last_error().c_str(); }

LOWGEAR_EXPORT int lowgear_simgpu_count(int* count) {
  return guarded([&] { target(count) = machine().gpus(); });
}

LOWGEAR_EXPORT int lowgear_simgpu_find(const char* uuid, int* index) {
  return guarded([&] {
    const std::string wanted = &target(uuid);
    int& found = target(index);
    for (int i = 0; i < machine().gpus(); ++i) {
      if (machine().gpu(i).uuid() != wanted) continue;
      found = i;
      return;
    }
    throw lowgear::InputError("there is no simulated GPU " + lowgear::quote(wanted));
  });
}

LOWGEAR_EXPORT int lowgear_simgpu_attach(int index) {
  return guarded([&] { machine().gpu(index).attach_context(); });
}

LOWGEAR_EXPORT int lowgear_simgpu_detach(int index) {
  return guarded([&] { machine().gpu(index).detach_context(); });
}

LOWGEAR_EXPORT int lowgear_simgpu_run_kernel(int index, double compute_s, double memory_s, double compute_load,
                                             double memory_load, double* elapsed_s) {
  return guarded([&] {
    const double time_s = machine().gpu(index).run(
        {.compute_s = compute_s, .memory_s = memory_s, .compute_load = compute_load, .memory_load = memory_load});
    if (elapsed_s != nullptr) *elapsed_s = time_s;
  });
}

LOWGEAR_EXPORT int lowgear_simgpu_true_energy_j(int index, double* energy_j) {
  return guarded([&] { target(energy_j) = machine().gpu(index).true_energy_j(); });
}

LOWGEAR_EXPORT int lowgear_simgpu_writes(int index, uint64_t* writes) {
  return guarded([&] { target(writes) = machine().gpu(index).writes(); });
}

LOWGEAR_EXPORT int lowgear_simgpu_locked_sm_clocks(int index, int* min_mhz, int* max_mhz) {
  return guarded([&] {
    const auto locked = machine().gpu(index).locked_sm_clocks();
    target(min_mhz) = locked ? locked->min_mhz : 0;
    target(max_mhz) = locked ? locked->max_mhz : 0;
  });
}

LOWGEAR_EXPORT int lowgear_simgpu_advance(double time_s) {
  return guarded([&] { machine().advance(time_s); });
}

LOWGEAR_EXPORT int lowgear_simgpu_now_s(double* time_s) {
  return guarded([&] { target(time_s) = machine().now_s(); });
}
