#include "agent/http/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/core/version.h"

namespace lowgear::agent {
namespace {

constexpr double kHertzPerMegahertz = 1e6;
constexpr double kRatioPerPercent = 0.01;
constexpr std::array kClockStates = {ClockState::untouched, ClockState::leased, ClockState::restored,
                                     ClockState::foreign, ClockState::failed};
constexpr std::array kSetAsideFor = {EnergyFault::contradicts, EnergyFault::stands_still, EnergyFault::falls,
                                     EnergyFault::too_high};

metrics::MetricLabels gpu_labels(const GpuStatus& gpu) {
  return {{"gpu", std::to_string(gpu.identity.index)}, {"uuid", gpu.identity.uuid}};
}

void add_agent(Service& service, metrics::Exposition& exposition) {
  metrics::MetricFamily& build =
      exposition.gauge("build_info", "Version of the agent and of the NVIDIA driver; always 1.");
  build.add({{"version", version()}, {"driver_version", service.driver_version()}}, 1.0);
  metrics::MetricFamily& simulated =
      exposition.gauge("simulated", "1 when the GPUs are Lowgear's simulation, 0 when they are real.");
  simulated.add({}, service.simulated() ? 1.0 : 0.0);
  metrics::MetricFamily& dry_run = exposition.gauge("dry_run", "1 when the agent decides but writes to no GPU.");
  dry_run.add({}, service.dry_run() ? 1.0 : 0.0);

  metrics::MetricFamily& unattended = exposition.gauge(
      "gpus_unattended",
      "GPUs that the configuration or the journal names but the agent does not control; see /healthz.");
  unattended.add({}, static_cast<double>(service.unattended_gpus().size()));

  const std::vector<LeaseStatus> leases = service.leases();
  metrics::MetricFamily& held = exposition.gauge("leases", "Leases that processes hold on GPUs.");
  held.add({}, static_cast<double>(leases.size()));
  metrics::MetricFamily& suspended =
      exposition.gauge("leases_suspended", "Leases whose process signals no units: clocks are at their default.");
  suspended.add({}, static_cast<double>(std::ranges::count_if(leases, &LeaseStatus::suspended)));
}

void add_quantity(const std::vector<GpuStatus>& gpus, const gpu::GpuQuantity& quantity,
                  metrics::Exposition& exposition) {
  const bool counts = quantity.aggregation == gpu::GpuAggregation::difference;
  metrics::MetricFamily& family =
      counts ? exposition.counter(quantity.metric, quantity.help) : exposition.gauge(quantity.metric, quantity.help);
  for (const GpuStatus& gpu : gpus) {
    if (gpu.healthy) family.add(gpu_labels(gpu), quantity.of(gpu.reading), quantity.metric_scale);
  }
}

void add_power_limits(const std::vector<GpuStatus>& gpus, metrics::Exposition& exposition) {
  metrics::MetricFamily& limit =
      exposition.gauge("gpu_power_limit_watts", "Power limit in effect, after all other limits of the machine.");
  for (const GpuStatus& gpu : gpus) {
    if (gpu.healthy && gpu.power_limits) limit.add(gpu_labels(gpu), gpu.power_limits->enforced_w);
  }
}

/// Readings of the driver. A GPU that does not answer has no current values.
void add_readings(const std::vector<GpuStatus>& gpus, metrics::Exposition& exposition) {
  for (const gpu::GpuSensor& sensor : gpu::gpu_sensors()) {
    for (const gpu::GpuQuantity& quantity : sensor.quantities) add_quantity(gpus, quantity, exposition);
    if (sensor.feature == gpu::GpuFeature::instant_power) add_power_limits(gpus, exposition);  // next to the power
  }
}

/// The agent's own state of each GPU.
void add_control(const std::vector<GpuStatus>& gpus, metrics::Exposition& exposition) {
  metrics::MetricFamily& info = exposition.gauge("gpu_info", "Name and PCI address of the GPU; always 1.");
  metrics::MetricFamily& healthy =
      exposition.gauge("gpu_healthy", "1 while the GPU returns every reading that worked when the agent started.");
  metrics::MetricFamily& age =
      exposition.gauge("gpu_reading_age_seconds", "Time since the GPU last returned a reading.");
  metrics::MetricFamily& controlled =
      exposition.gauge("gpu_controlled", "1 when the configuration lets the agent set this GPU's clocks.");
  metrics::MetricFamily& state =
      exposition.gauge("gpu_clock_state", "1 for the state that the clocks are in, as far as the agent knows.");
  metrics::MetricFamily& requested =
      exposition.gauge("gpu_requested_clock_hertz", "Range that the agent has set for the SM clock.");
  metrics::MetricFamily& writes = exposition.counter("gpu_clock_writes", "Setter calls that the driver accepted.");
  metrics::MetricFamily& errors = exposition.counter("gpu_clock_write_errors", "Setter calls that failed.");
  metrics::MetricFamily& late =
      exposition.counter("gpu_late_units", "Unit starts that arrived during a write and were skipped.");
  for (const GpuStatus& gpu : gpus) {
    const metrics::MetricLabels labels = gpu_labels(gpu);
    info.add(metrics::with(metrics::with(labels, "name", gpu.identity.name), "pci_address", gpu.identity.pci_address),
             1.0);
    healthy.add(labels, gpu.healthy ? 1.0 : 0.0);
    age.add(labels, gpu.reading_age_s);
    controlled.add(labels, gpu.controlled ? 1.0 : 0.0);
    for (const ClockState each : kClockStates) {
      state.add(metrics::with(labels, "state", std::string(name(each))), gpu.clock_state == each ? 1.0 : 0.0);
    }
    requested.add(metrics::with(labels, "bound", "min"), gpu.requested_min_mhz, kHertzPerMegahertz);
    requested.add(metrics::with(labels, "bound", "max"), gpu.requested_max_mhz, kHertzPerMegahertz);
    writes.add(labels, static_cast<double>(gpu.clock_writes));
    errors.add(labels, static_cast<double>(gpu.clock_write_errors));
    late.add(labels, static_cast<double>(gpu.late_units));
  }
}

/// Energy counters of GPUs. A GPU without one has no samples.
void add_energy_counters(const std::vector<GpuStatus>& gpus, metrics::Exposition& exposition) {
  metrics::MetricFamily& works = exposition.gauge(
      "gpu_energy_known", "1 while the energy counter moves and does not contradict the power readings.");
  metrics::MetricFamily& set_aside = exposition.counter(
      "gpu_energy_set_aside",
      "Impossible steps of the energy counter, and times in which it did not work, since the agent's start.");
  for (const GpuStatus& gpu : gpus) {
    if (!gpu.energy_counter.present) continue;
    const metrics::MetricLabels labels = gpu_labels(gpu);
    works.add(labels, gpu.energy_counter.works ? 1.0 : 0.0);
    for (const EnergyFault fault : kSetAsideFor) {
      set_aside.add(metrics::with(labels, "reason", std::string(name(fault))),
                    static_cast<double>(gpu.energy_counter.set_aside.at(static_cast<std::size_t>(fault))));
    }
  }
}

/// Workload power profiles and power smoothing. A GPU without these features has no samples.
void add_power_features(const std::vector<GpuStatus>& gpus, metrics::Exposition& exposition) {
  metrics::MetricFamily& profiles =
      exposition.gauge("gpu_workload_power_profile",
                       "1 for each workload power profile that is requested or that the driver enforces, else 0.");
  metrics::MetricFamily& smoothing = exposition.gauge("gpu_power_smoothing", "1 while power smoothing is enabled.");
  metrics::MetricFamily& lifetime = exposition.gauge("gpu_power_smoothing_lifetime_ratio",
                                                     "Lifetime that the circuitry of power smoothing has left.");
  for (const GpuStatus& gpu : gpus) {
    if (!gpu.healthy) continue;
    const metrics::MetricLabels labels = gpu_labels(gpu);
    if (const auto& now = gpu.workload_power_profiles) {
      for (std::size_t profile = 0; profile < now->supported.size(); ++profile) {
        if (!now->supported.test(profile)) continue;
        const auto named = metrics::with(labels, "profile", gpu::workload_power_profile_name(profile));
        profiles.add(metrics::with(named, "state", "requested"), now->requested.test(profile) ? 1.0 : 0.0);
        profiles.add(metrics::with(named, "state", "enforced"), now->enforced.test(profile) ? 1.0 : 0.0);
      }
    }
    if (!gpu.power_smoothing) continue;
    smoothing.add(labels, gpu.power_smoothing->enabled ? 1.0 : 0.0);
    lifetime.add(labels, gpu.power_smoothing->lifetime_left_percent, kRatioPerPercent);
  }
}

void add_throttling(const std::vector<GpuStatus>& gpus,
                    const std::map<std::string, Metrics::ThrottleSeconds>& throttled, metrics::Exposition& exposition) {
  metrics::MetricFamily& now = exposition.gauge("gpu_throttled", "1 while the GPU is throttled for this reason.");
  metrics::MetricFamily& seconds =
      exposition.counter("gpu_throttle_seconds", "Time for which the GPU was throttled since the agent's start.");
  for (const GpuStatus& gpu : gpus) {
    const std::optional<gpu::ThrottleReasons>& reasons = gpu.reading.throttle_reasons;
    if (!reasons || !gpu.healthy) continue;
    const metrics::MetricLabels labels = gpu_labels(gpu);
    now.add(metrics::with(labels, "reason", "power_cap"), reasons->power_cap() ? 1.0 : 0.0);
    now.add(metrics::with(labels, "reason", "thermal"), reasons->thermal() ? 1.0 : 0.0);
    now.add(metrics::with(labels, "reason", "hardware_slowdown"), reasons->hardware_slowdown() ? 1.0 : 0.0);
    const auto found = throttled.find(gpu.identity.uuid);
    if (found == throttled.end()) continue;
    seconds.add(metrics::with(labels, "reason", "power_cap"), found->second.power_cap_s);
    seconds.add(metrics::with(labels, "reason", "thermal"), found->second.thermal_s);
    seconds.add(metrics::with(labels, "reason", "hardware_slowdown"), found->second.hardware_slowdown_s);
  }
}

void add_cpus(const std::vector<CpuEnergy>& cpus, metrics::Exposition& exposition) {
  metrics::MetricFamily& energy =
      exposition.counter("cpu_energy_joules", "Energy of a CPU package or of its memory (RAPL).");
  metrics::MetricFamily& set_aside = exposition.counter(
      "cpu_energy_set_aside",
      "Impossible steps of the counter, and times in which it stood still, since the agent's start.");
  for (const CpuEnergy& cpu : cpus) {
    const metrics::MetricLabels package = {{"zone", fmt::format("package-{}", cpu.package)}};
    const metrics::MetricLabels dram = {{"zone", fmt::format("dram-{}", cpu.package)}};
    energy.add(package, cpu.package_uj, 1e-6);
    energy.add(dram, cpu.dram_uj, 1e-6);
    set_aside.add(package, static_cast<double>(cpu.package_set_aside));
    if (cpu.dram_uj || cpu.dram_set_aside > 0) set_aside.add(dram, static_cast<double>(cpu.dram_set_aside));
  }
}

void add_shares(const MpsSharing& mps, metrics::Exposition& exposition) {
  metrics::MetricFamily& running =
      exposition.gauge("mps_daemon_running", "1 while the MPS daemon of the GPU responds.");
  metrics::MetricFamily& restarts =
      exposition.counter("mps_daemon_restarts", "Starts of the MPS daemon that failed or ended.");
  metrics::MetricFamily& ratio = exposition.gauge(
      "mps_active_thread_ratio", "Share of the SMs that a client of MPS may use; it reserves nothing.");
  for (const MpsDaemonStatus& daemon : mps.daemons()) {
    if (daemon.gpu_index < 0) continue;  // there is no such GPU
    const metrics::MetricLabels labels = {{"gpu", std::to_string(daemon.gpu_index)}, {"uuid", daemon.gpu_uuid}};
    running.add(labels, daemon.state == MpsState::running ? 1.0 : 0.0);
    restarts.add(labels, static_cast<double>(daemon.restarts));
    for (const auto& [id, share] : mps.shares().all()) {
      if (share.gpu_uuid != daemon.gpu_uuid) continue;
      ratio.add(metrics::with(labels, "client", share.request.client), std::optional(share.request.percent),
                kRatioPerPercent);
    }
  }
}

}  // namespace

void Metrics::observe(const std::vector<GpuStatus>& gpus) {
  constexpr double kLongestGapS = 1;
  for (const GpuStatus& gpu : gpus) {
    const GpuReading& reading = gpu.reading;
    if (!gpu.healthy || !reading.throttle_reasons) continue;
    ThrottleSeconds& sum = throttled_[gpu.identity.uuid];
    const std::int64_t last_ns = std::exchange(sum.last_reading_ns, reading.time_ns);
    if (last_ns == 0 || reading.time_ns <= last_ns) continue;
    const double gap_s = std::min(static_cast<double>(reading.time_ns - last_ns) * 1e-9, kLongestGapS);
    if (reading.throttle_reasons->power_cap()) sum.power_cap_s += gap_s;
    if (reading.throttle_reasons->thermal()) sum.thermal_s += gap_s;
    if (reading.throttle_reasons->hardware_slowdown()) sum.hardware_slowdown_s += gap_s;
  }
}

metrics::Exposition Metrics::gather(Service& service, const std::vector<CpuEnergy>& cpus, const MpsSharing* mps) const {
  const std::vector<GpuStatus> gpus = service.gpus();
  metrics::Exposition exposition;
  add_agent(service, exposition);
  add_readings(gpus, exposition);
  add_control(gpus, exposition);
  add_energy_counters(gpus, exposition);
  add_power_features(gpus, exposition);
  add_throttling(gpus, throttled_, exposition);
  add_cpus(cpus, exposition);
  if (mps != nullptr) add_shares(*mps, exposition);
  return exposition;
}

}  // namespace lowgear::agent
