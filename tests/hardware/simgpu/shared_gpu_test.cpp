// What planning/sharing states about jobs that share a GPU, against simulated GPUs that they share.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "hardware/simgpu/physics.h"
#include "planning/sharing/packing.h"

namespace lowgear::simgpu {
namespace {

/// A job that alternates between a kernel and a pause of random lengths.
struct Workload {
  double busy = 0.5;        ///< when it has the GPU alone
  double kernel_s = 0.004;  ///< mean
  double width = 1;
  double load = 0.1;  ///< low enough for full clocks
};

/// What a simulation showed.
struct Shown {
  std::vector<double> alone_s;  ///< of each job: time alone of what it did, per second
  double power_w = 0;
};

/// One GPU whose jobs are run for `time_s` in its own time.
class Simulation {
 public:
  Simulation(std::vector<Workload> jobs, KernelSharing sharing) : jobs_(std::move(jobs)) {
    physics_.set_contexts(1);
    physics_.set_sharing(sharing);
    physics_.advance_to(kWarmUpNs);
    states_.resize(jobs_.size());
    for (State& state : states_) state.next_ns = kWarmUpNs;
  }

  Shown run(double time_s) {
    const double start_j = physics_.energy_j();
    const std::int64_t start_ns = state_.time_ns;
    const std::int64_t end_ns = start_ns + static_cast<std::int64_t>(time_s * 1e9);
    while (state_.time_ns < end_ns) {
      std::int64_t next_ns = end_ns;
      for (std::size_t i = 0; i < jobs_.size(); ++i) next_ns = std::min(next_ns, next_of(i));
      physics_.advance_to(next_ns);
      for (std::size_t i = 0; i < jobs_.size(); ++i) step(i);
    }
    const double passed_s = static_cast<double>(state_.time_ns - start_ns) * 1e-9;
    Shown shown;
    for (const State& state : states_) shown.alone_s.push_back(state.alone_s / passed_s);
    shown.power_w = (physics_.energy_j() - start_j) / passed_s;
    return shown;
  }

 private:
  static constexpr std::int64_t kWarmUpNs = 5'000'000'000;
  struct State {
    std::int64_t next_ns = 0;  ///< when its next kernel starts
    bool running = false;
    double kernel_s = 0;
    double alone_s = 0;  ///< of kernels and pauses that are done
  };

  [[nodiscard]] std::int64_t next_of(std::size_t job) const {
    return states_[job].running ? state_.kernels.at(job).end_ns : states_[job].next_ns;
  }

  void step(std::size_t job) {
    State& state = states_[job];
    const Workload& load = jobs_[job];
    std::exponential_distribution<double> mean(1);
    if (state.running && !state_.kernels.at(job).active) {
      state.running = false;
      const double pause_s = load.kernel_s * (1 - load.busy) / load.busy * mean(random_);
      state.next_ns = state_.time_ns + std::llround(pause_s * 1e9);
      state.alone_s += state.kernel_s + pause_s;
    }
    if (!state.running && state.next_ns <= state_.time_ns) {
      state.running = true;
      state.kernel_s = load.kernel_s * mean(random_);
      physics_.start_kernel(state.kernel_s, 0, {.compute = load.load, .memory = 0}, load.width, job);
    }
  }

  static SimulatedGpuModel model() {
    SimulatedGpuModel model = find_gpu_model("H100");
    model.switching = {};
    return model;
  }

  std::vector<Workload> jobs_;
  std::vector<State> states_;
  std::mt19937_64 random_{11};
  SimulatedGpuModel model_ = model();
  GpuPhysicsState state_ = idle_gpu(model_, 1);
  GpuPhysics physics_{model_, state_};
};

constexpr double kTimeS = 300;

sharing::SharingMode mode_of(KernelSharing sharing) {
  return sharing == KernelSharing::concurrent ? sharing::SharingMode::mps : sharing::SharingMode::time_slicing;
}

double idle_power_w() {
  SimulatedGpuModel model = find_gpu_model("H100");
  return idle_gpu(model, 1).power.total_w();
}

/// The jobs as monitoring each on a simulated GPU of its own shows them.
std::vector<sharing::JobLoad> monitored(const std::vector<Workload>& jobs, KernelSharing sharing) {
  std::vector<sharing::JobLoad> loads;
  for (const Workload& job : jobs) {
    const Shown alone = Simulation({job}, sharing).run(kTimeS);
    loads.push_back({.name = "job" + std::to_string(loads.size()),
                     .gpus = 1,
                     .busy = job.busy,
                     .sm_active = job.busy * job.width,
                     .memory_gib = 10,
                     .power_w = alone.power_w,
                     .iteration_s = {}});
  }
  return loads;
}

void expect_as_planned(const std::vector<Workload>& jobs, KernelSharing sharing) {
  const sharing::GpuFacts gpu{
      .memory_gib = 80, .idle_w = idle_power_w(), .awake_w = Simulation({}, sharing).run(10).power_w, .limit_w = 700};
  const std::vector<sharing::JobLoad> loads = monitored(jobs, sharing);
  sharing::PackOptions options{.mode = mode_of(sharing), .max_slowdown = 10};
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < jobs.size(); ++i) all.push_back(i);
  const sharing::Group planned = check_group(loads, all, gpu, options).group;

  const Shown shown = Simulation(jobs, sharing).run(kTimeS);
  double apart_w = 0;  // the same work on GPUs of their own, which then wait for the others' end
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_NEAR(1 / shown.alone_s[i], planned.slowdowns[i].predicted, 0.005 * planned.slowdowns[i].predicted);
    EXPECT_GE(1 / shown.alone_s[i], 0.995 * planned.slowdowns[i].low);
    EXPECT_LE(1 / shown.alone_s[i], planned.slowdowns[i].high);
    apart_w += loads[i].power_w * shown.alone_s[i] + gpu.idle_w * (1 - shown.alone_s[i]);
  }
  const double shared_w = shown.power_w + gpu.idle_w * static_cast<double>(jobs.size() - 1);
  // What is left are chance in the work done and the temperature of one GPU in place of two.
  EXPECT_NEAR(apart_w - shared_w, planned.saved_w.predicted, 0.1 + 0.03 * planned.saved_w.predicted);
}

TEST(SharedGpu, TimeSlicesAsPlanned) {
  expect_as_planned({{.busy = 0.4}, {.busy = 0.4}}, KernelSharing::time_slicing);
  expect_as_planned({{.busy = 0.2, .kernel_s = 0.002}, {.busy = 0.7, .kernel_s = 0.01}}, KernelSharing::time_slicing);
  expect_as_planned({{.busy = 0.9}, {.busy = 0.9}}, KernelSharing::time_slicing);
}

TEST(SharedGpu, RunsConcurrentlyAsPlanned) {
  expect_as_planned({{.busy = 0.6, .width = 0.4}, {.busy = 0.8, .width = 0.5}}, KernelSharing::concurrent);
  expect_as_planned({{.busy = 0.6, .width = 0.8}, {.busy = 0.5, .width = 0.7}}, KernelSharing::concurrent);
  expect_as_planned({{.busy = 0.3, .width = 0.5}, {.busy = 0.3, .width = 0.5}, {.busy = 0.4, .width = 0.6}},
                    KernelSharing::concurrent);
}

}  // namespace
}  // namespace lowgear::simgpu
