#include "app/operations/doctor/switch_latency_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <variant>

#include "app/cli/terminal/progress.h"
#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "client/agent/agent_connection.h"
#include "hardware/gpu/nvml_survey.h"
#include "hardware/load/cuda_driver.h"
#include "hardware/simgpu/simulated_machine.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/recording.h"

namespace lowgear::operations::doctor {
namespace {

class SimulatedLoad final : public GpuLoad {
 public:
  explicit SimulatedLoad(const std::string& uuid)
      : machine_(simgpu::SimulatedMachine::from_environment()), gpu_(&find(*machine_, uuid)) {
    gpu_->attach_context();
  }
  ~SimulatedLoad() override { gpu_->detach_context(); }
  SimulatedLoad(const SimulatedLoad&) = delete;
  SimulatedLoad& operator=(const SimulatedLoad&) = delete;

  void run() override { gpu_->run({.compute_s = kGpuLoadS, .compute_load = kLoad, .memory_load = 0}); }

 private:
  static constexpr double kLoad = 0.1;  ///< no power limit holds the clock down

  static simgpu::SimulatedGpu& find(simgpu::SimulatedMachine& machine, const std::string& uuid) {
    for (int index = 0; index < machine.gpus(); ++index) {
      if (machine.gpu(index).uuid() == uuid) return machine.gpu(index);
    }
    throw InputError(fmt::format("LOWGEAR_SIMGPU names a simulated machine without the GPU {}", uuid));
  }

  std::unique_ptr<simgpu::SimulatedMachine> machine_;
  simgpu::SimulatedGpu* gpu_;
};

/// One thread that multiplies and adds: its cycles do not depend on the clock. It stores its result, so that no
/// compiler leaves it out.
constexpr const char* kSpinKernel = R"(
.version 6.0
.target sm_60
.address_size 64
.visible .entry lowgear_spin(.param .u32 rounds, .param .u64 result)
{
  .reg .pred %again;
  .reg .b32 %round, %rounds;
  .reg .f32 %value, %factor;
  .reg .b64 %result;
  ld.param.u32 %rounds, [rounds];
  ld.param.u64 %result, [result];
  cvta.to.global.u64 %result, %result;
  mov.u32 %round, 0;
  mov.f32 %value, 0f3F000000;
  mov.f32 %factor, 0f3F7FFFFF;
SPIN:
  fma.rn.f32 %value, %value, %factor, %value;
  fma.rn.f32 %value, %value, %factor, %factor;
  fma.rn.f32 %value, %value, %factor, %value;
  fma.rn.f32 %value, %value, %factor, %factor;
  add.u32 %round, %round, 1;
  setp.lt.u32 %again, %round, %rounds;
  @%again bra SPIN;
  st.global.f32 [%result], %value;
  ret;
}
)";

class CudaLoad final : public GpuLoad {
 public:
  explicit CudaLoad(const std::string& pci_address)
      : cuda_(pci_address),
        spin_(cuda_.function(cuda_.load_module(kSpinKernel), "lowgear_spin")),
        result_(cuda_.allocate(sizeof(float))) {
    calibrate();
  }

  void run() override {
    std::array<void*, 2> arguments = {&rounds_, &result_};
    cuda_.launch(spin_, 1, 1, 0, arguments.data());
    cuda_.synchronize();
  }

 private:
  /// At the clock of a GPU that no one has locked, which is its highest: hardly any power is drawn.
  void calibrate() {
    constexpr std::uint32_t kFirstRounds = 10'000;
    constexpr int kWarmUps = 20;
    rounds_ = kFirstRounds;
    run();
    while (true) {
      double fastest_s = INFINITY;
      for (int i = 0; i < kWarmUps; ++i) {
        const cli::Stopwatch stopwatch;
        run();
        fastest_s = std::min(fastest_s, stopwatch.elapsed_s());
      }
      const double factor = std::clamp(kGpuLoadS / fastest_s, 1.0, 10.0);
      rounds_ = static_cast<std::uint32_t>(rounds_ * factor);
      if (factor < 10) return;
    }
  }

  load::CudaDriver cuda_;
  load::CudaDriver::Function spin_;
  load::CudaDriver::Address result_;
  std::uint32_t rounds_ = 0;
};

}  // namespace

std::unique_ptr<GpuLoad> simulated_gpu_load(const std::string& uuid) { return std::make_unique<SimulatedLoad>(uuid); }

std::unique_ptr<GpuLoad> cuda_gpu_load(const std::string& pci_address) {
  return std::make_unique<CudaLoad>(pci_address);
}

namespace {

constexpr std::chrono::milliseconds kAgentTimeout{10'000};
/// Of the highest allowed clock. Far enough apart for the times of a unit to differ clearly.
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
