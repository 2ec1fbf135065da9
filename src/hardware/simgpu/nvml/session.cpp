#include "hardware/simgpu/nvml/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "hardware/simgpu/shared_state.h"

namespace lowgear::simgpu::nvml {

Session& Session::instance() {
  static auto* const session = new Session;  // never destroyed: the program's threads may call while it exits
  return *session;
}

Return Session::init() {
  const std::lock_guard lock(mutex_);
  if (users_ == 0) {
    machine_ = SimulatedMachine::from_environment();
    while (static_cast<int>(handles_.size()) < machine_->gpus()) {
      handles_.push_back(std::make_unique<Handle>(Handle{.index = static_cast<int>(handles_.size())}));
    }
  }
  ++users_;
  return Return::success;
}

Return Session::shutdown() {
  const std::lock_guard lock(mutex_);
  if (users_ == 0) return Return::uninitialized;
  if (--users_ == 0) machine_.reset();  // calls under way keep it until they are done
  return Return::success;
}

std::shared_ptr<SimulatedMachine> Session::machine() {
  const std::lock_guard lock(mutex_);
  return machine_;
}

Device Session::handle(int index) {
  const std::lock_guard lock(mutex_);
  const bool known = machine_ && index >= 0 && index < machine_->gpus();
  return known ? reinterpret_cast<Device>(handles_[static_cast<std::size_t>(index)].get()) : nullptr;
}

std::optional<int> Session::index_of(Device device) {
  const std::lock_guard lock(mutex_);
  // Compared, never followed: a client may hand over anything.
  const auto found = std::ranges::find(handles_, reinterpret_cast<Handle*>(device), &std::unique_ptr<Handle>::get);
  if (found == handles_.end() || !machine_ || (*found)->index >= machine_->gpus()) return std::nullopt;
  return (*found)->index;
}

Return code_of_current_exception() noexcept {
  try {
    throw;
  } catch (const InputError&) {
    return Return::invalid_argument;
  } catch (const SharedStateCutOff&) {
    return Return::gpu_is_lost;
  } catch (const std::bad_alloc&) {
    return Return::insufficient_resources;
  } catch (...) {
    return Return::unknown;
  }
}

std::optional<Return> strike(SimulatedMachine& machine, SimulatedGpu& gpu, std::string_view call) {
  const SimulatedFault fault = gpu.faults().next(call);
  if (fault.delay_s > 0) machine.wait(fault.delay_s);
  if (fault.lost) return Return::gpu_is_lost;
  if (fault.return_code != 0) return static_cast<Return>(fault.return_code);
  return std::nullopt;
}

Return give_text(char* target, std::uint32_t capacity, std::string_view text) {
  if (target == nullptr) return Return::invalid_argument;
  if (text.size() >= capacity) return Return::insufficient_size;
  std::memcpy(target, text.data(), text.size());
  target[text.size()] = '\0';
  return Return::success;
}

bool may_set(const SimulatedMachine& machine) { return !machine.root_required() || geteuid() == 0; }

std::string_view simulated_driver_version() {
  const char* version = std::getenv("LOWGEAR_SIMGPU_DRIVER");  // NOLINT(concurrency-mt-unsafe): nothing here sets it
  return version != nullptr && *version != '\0' ? version : "580.159.04";
}

}  // namespace lowgear::simgpu::nvml
