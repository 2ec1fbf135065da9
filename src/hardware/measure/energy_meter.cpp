#include "hardware/measure/energy_meter.h"

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"

namespace lowgear::measure {
namespace {

/// CPU counters are exact to a millisecond whenever they are read; in between it is enough to see them wrap around.
constexpr long kRoundsPerCpuReading = 100;

std::vector<gpu::Gpu*> all_gpus(const gpu::GpuSystem& system) {
  std::vector<gpu::Gpu*> gpus;
  for (const std::unique_ptr<gpu::Gpu>& gpu : system.gpus()) gpus.push_back(gpu.get());
  return gpus;
}

}  // namespace

EnergyMeter::EnergyMeter(const gpu::GpuSystem& system, std::vector<gpu::Gpu*> gpus, EnergyMeterOptions options,
                         std::unique_ptr<gpu::Rapl> cpus)
    : simulated_(system.simulated()),
      options_(std::move(options)),
      gpus_(gpus.empty() ? all_gpus(system) : std::move(gpus)),
      cpus_(std::move(cpus)) {
  for (gpu::Gpu* gpu : gpus_) meters_.emplace_back(*gpu, options_.edge_power);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

EnergyMeter::~EnergyMeter() = default;

void EnergyMeter::run(const std::stop_token& stop) {
  auto next = std::chrono::steady_clock::now();
  const auto period =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(options_.period_s));
  for (long round = 0; !stop.stop_requested(); ++round) {
    for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      const GpuSample taken = sample(*gpus_[gpu], monotonic_s);
      if (options_.observer) options_.observer(gpu, taken);
      add(gpu, taken);
    }
    next = std::max(next + period, std::chrono::steady_clock::now());
    std::unique_lock lock(mutex_);
    if (round % kRoundsPerCpuReading == 0) (void)read_cpus();
    changed_.wait_until(lock, stop, next, [] { return false; });
  }
}

void EnergyMeter::add(std::size_t gpu, const GpuSample& sample) {
  {
    const std::lock_guard lock(mutex_);
    meters_[gpu].add(sample);
    for (auto& [id, window] : windows_) window.gpus[gpu].add(sample);
  }
  changed_.notify_all();
}

void EnergyMeter::await_ready(std::unique_lock<std::mutex>& lock) {
  const auto ready = [this] { return std::ranges::all_of(meters_, &GpuMeter::ready); };
  changed_.wait_for(lock, std::chrono::duration<double>(options_.ready_timeout_s), ready);
}

void EnergyMeter::await_ready() {
  std::unique_lock lock(mutex_);
  await_ready(lock);
}

EnergyMeter::WindowId EnergyMeter::begin(std::string name) {
  std::unique_lock lock(mutex_);
  await_ready(lock);
  Window window{.name = std::move(name), .start_time_s = monotonic_s(), .gpus = {}, .cpus = {}};
  window.cpus = read_cpus();
  for (const GpuMeter& meter : meters_) window.gpus.push_back(meter.begin(window.start_time_s));
  windows_.emplace(next_id_, std::move(window));
  return next_id_++;
}

std::map<EnergyMeter::WindowId, EnergyMeter::Window>::iterator EnergyMeter::find(WindowId window) {
  const auto found = windows_.find(window);
  if (found == windows_.end()) throw InputError("no energy window " + std::to_string(window) + " is open");
  return found;
}

std::vector<gpu::RaplReading> EnergyMeter::read_cpus() {
  return cpus_ ? cpus_->read() : std::vector<gpu::RaplReading>();
}

WindowMeasurement EnergyMeter::measure(const Window& window) {
  const double now_s = monotonic_s();
  WindowMeasurement result{
      .name = window.name, .time_s = now_s - window.start_time_s, .simulated = simulated_, .gpus = {}, .cpus = {}};
  for (std::size_t gpu = 0; gpu < meters_.size(); ++gpu) {
    result.gpus.push_back(meters_[gpu].measure(window.gpus[gpu], now_s));
  }
  const std::vector<gpu::RaplReading> cpus = read_cpus();  // as many as at the begin
  for (std::size_t zone = 0; zone < cpus.size(); ++zone) {
    result.cpus.push_back(cpu_measurement(window.cpus[zone], cpus[zone]));
  }
  return result;
}

WindowMeasurement EnergyMeter::measure(WindowId window) {
  const std::lock_guard lock(mutex_);
  return measure(find(window)->second);
}

std::string EnergyMeter::counter_problem() {
  const std::lock_guard lock(mutex_);
  for (std::size_t gpu = 0; gpu < meters_.size(); ++gpu) {
    const EnergyVerdict& state = meters_[gpu].counter_state();
    if (state.usable()) continue;
    const bool either = state.fault == EnergyFault::contradicts;
    return gpus_[gpu]->identity().uuid + ": the energy counter " + state.reason +
           (either ? "; it is not known which of them is right, and errors of energies cover both"
                   : "; energies are those of the power readings");
  }
  return {};
}

WindowMeasurement EnergyMeter::end(WindowId window) {
  const std::lock_guard lock(mutex_);
  const auto found = find(window);
  WindowMeasurement result = measure(found->second);
  windows_.erase(found);
  return result;
}

}  // namespace lowgear::measure
