#include "app/operations/doctor/switch_latency_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <variant>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "client/agent/agent_connection.h"
#include "hardware/gpu/nvml_system.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/recording.h"

namespace lowgear::operations::doctor {
namespace {

constexpr std::chrono::milliseconds kAgentTimeout{10'000};
/// Of the highest allowed clock. Far enough apart that the time of a unit tells them apart.
constexpr std::array<double, 3> kClockShares = {1, 0.75, 0.55};
/// Units that run at one clock: long enough for a change to take effect before the middle of them.
constexpr int kUnitsOfBlock = 10;
/// Which clock each block runs at: every change between two of them, in both directions, twice as often as once.
constexpr std::array<int, 12> kBlocks = {0, 1, 0, 2, 1, 2, 0, 2, 0, 1, 2, 1};
constexpr int kIterations = 2;
constexpr int kWarmUps = 10;
/// A GPU that computes for a larger share of the time is in use.
constexpr int kMostBusyPercent = 5;

int planned_clock_mhz(const std::vector<int>& clocks_mhz, int unit) {
  const int place = kBlocks[static_cast<std::size_t>(unit / kUnitsOfBlock)];
  return clocks_mhz[static_cast<std::size_t>(place) % clocks_mhz.size()];
}

constexpr int kUnits = kUnitsOfBlock * static_cast<int>(kBlocks.size());

/// One iteration of the measurement as a plan of one rank.
plan::Plan probe_plan(const std::vector<int>& clocks_mhz) {
  plan::Plan plan;
  plan.policy = "probe";
  plan.schedule = "gpipe";
  plan.microbatches = kUnits;
  std::vector<plan::PlannedOp>& ops = plan.ranks.emplace_back();
  for (int unit = 0; unit < kUnits; ++unit) {
    const int clock_mhz = planned_clock_mhz(clocks_mhz, unit);
    const double duration_s = kGpuLoadS * clocks_mhz.front() / clock_mhz;
    ops.push_back({.stage = 0,
                   .kind = OpKind::forward,
                   .microbatch = unit,
                   .clock_mhz = clock_mhz,
                   .start_s = plan.time_s,
                   .duration_s = duration_s});
    plan.time_s += duration_s;
  }
  plan.deadline_s = plan.time_s;
  plan.switches = count_switches(plan.ranks);
  return plan;
}

std::uint64_t mark(ipc::UnitRing& ring, ipc::UnitEventType type, int number) {
  const auto now_ns = static_cast<std::uint64_t>(monotonic_ns());
  write_unit(ring, {.time_ns = now_ns,
                    .type = type,
                    .kind = static_cast<std::uint8_t>(OpKind::forward),
                    .stage = 0,
                    .microbatch = static_cast<std::uint32_t>(number)});
  return now_ns;
}

profile::Recording run_units(ipc::UnitRing& ring, const std::vector<int>& clocks_mhz, GpuLoad& load) {
  constexpr double kNsPerS = 1e9;
  profile::Recording recording;
  const auto first_ns = static_cast<std::uint64_t>(monotonic_ns());
  const auto seconds = [first_ns](std::uint64_t time_ns) { return static_cast<double>(time_ns - first_ns) / kNsPerS; };
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    mark(ring, ipc::UnitEventType::iteration_begin, iteration);
    for (int unit = 0; unit < kUnits; ++unit) {
      const std::uint64_t begin_ns = mark(ring, ipc::UnitEventType::unit_begin, unit);
      load.run();
      const std::uint64_t end_ns = mark(ring, ipc::UnitEventType::unit_end, unit);
      recording.units.push_back({.iteration = iteration,
                                 .microbatch = unit,
                                 .start_s = seconds(begin_ns),
                                 .end_s = seconds(end_ns),
                                 .clock_mhz = planned_clock_mhz(clocks_mhz, unit)});
    }
    mark(ring, ipc::UnitEventType::iteration_end, iteration);
  }
  return recording;
}

void require_idle(gpu::Gpu& gpu) {
  if (gpu.identity().mig_enabled) throw Error("the GPU is in MIG mode: its clocks are those of all its instances");
  if (!works(gpu, gpu::GpuFeature::utilisation)) return;
  const int busy_percent = read(gpu, gpu::GpuFeature::utilisation).gpu_utilisation_percent.value_or(0);
  if (busy_percent <= kMostBusyPercent) return;
  throw Error(fmt::format("the GPU is busy ({} %): repeat this when nothing else runs on it", busy_percent));
}

}  // namespace

std::vector<int> probe_clocks_mhz(std::vector<int> supported_mhz, AllowedClocks allowed) {
  std::erase_if(supported_mhz, [&](int mhz) { return mhz < allowed.low_mhz || mhz > allowed.high_mhz; });
  if (supported_mhz.empty()) return {};
  const int highest_mhz = *std::ranges::max_element(supported_mhz);
  std::vector<int> chosen;
  for (const double share : kClockShares) {
    const double wanted_mhz = share * highest_mhz;
    chosen.push_back(*std::ranges::min_element(supported_mhz, {}, [=](int mhz) { return std::abs(mhz - wanted_mhz); }));
  }
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

profile::SwitchLatency measure_switch_latency(const gpu::GpuSurvey& gpu, const std::filesystem::path& agent_socket,
                                              GpuLoad& load) {
  const ipc::HelloMessage hello{.gpu = gpu.identity.uuid, .job = "lowgear doctor"};
  client::AgentConnection agent(agent_socket, hello, kAgentTimeout);
  const ipc::LeaseMessage& lease = agent.lease();
  if (lease.dry_run) throw Error("the agent runs with --no-writes: it changes no clock");
  const std::vector<int> clocks_mhz = probe_clocks_mhz(
      gpu.supported_sm_clocks_mhz, {static_cast<int>(lease.min_clock_mhz), static_cast<int>(lease.max_clock_mhz)});
  if (clocks_mhz.size() < 2) throw Error("the agent lets this user set too few clocks to compare");
  for (int i = 0; i < kWarmUps; ++i) load.run();
  const ipc::PlanMessage plan{.plan_json = write_plan(probe_plan(clocks_mhz)), .from_iteration = {}};
  const ipc::PlanAnswer answer = agent.send_plan(plan, kAgentTimeout);
  if (const auto* const refused = std::get_if<ipc::RefusedMessage>(&answer)) throw Error(refused->reason);
  ipc::UnitRing& ring = agent.ring()->ring();
  const profile::Recording recording = run_units(ring, clocks_mhz, load);
  agent.check();
  if (ring.clocks_not_held.load(std::memory_order_acquire) != 0) {
    throw Error("the GPU did not run at the clocks that the agent requested; `lowgear agent status` says why");
  }
  agent.release();
  const std::optional<profile::SwitchLatency> found = profile::find_switch_latency({&recording, 1});
  if (!found) throw Error("the times of the load vary too much; repeat this when the machine is idle");
  return *found;
}

std::vector<GpuSwitchLatency> measure_switch_latencies(const gpu::NvmlSurvey& nvml,
                                                       const std::filesystem::path& agent_socket) {
  const std::unique_ptr<gpu::GpuSystem> system = gpu::open_nvml();
  std::vector<GpuSwitchLatency> measured;
  for (const gpu::GpuSurvey& gpu : nvml.gpus) {
    GpuSwitchLatency& result = measured.emplace_back();
    result.uuid = gpu.identity.uuid;
    try {
      require_idle(find_gpu(*system, gpu.identity.uuid));
      const std::unique_ptr<GpuLoad> load =
          nvml.simulated ? simulated_gpu_load(gpu.identity.uuid) : cuda_gpu_load(gpu.identity.pci_address);
      result.latency = measure_switch_latency(gpu, agent_socket, *load);
    } catch (const Error& error) {
      result.problem = error.what();
    }
  }
  return measured;
}

}  // namespace lowgear::operations::doctor
