#include "hardware/simgpu/shared_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "base/core/eventually.h"
#include "hardware/simgpu/simgpu_fixture.h"

namespace lowgear::simgpu {
namespace {

using SharedStateTest = SimulatedMachineTest;

TEST_F(SharedStateTest, TwoProcessesSeeTheSameGpu) {
  const auto machine = make();
  ChildProcess child([this] {
    const auto mine = open();
    mine->gpu(0).control().lock_sm_clocks(345, 900);
    mine->gpu(0).run({.compute_s = 1, .memory_s = 1});
  });
  ASSERT_TRUE(child.succeeded());
  EXPECT_EQ(machine->gpu(0).locked_sm_clocks()->max_mhz, 900);
  EXPECT_EQ(machine->gpu(0).readings().sm_clock_mhz, 900);
  EXPECT_GT(machine->now_s(), 3);
  EXPECT_GT(machine->gpu(0).true_energy_j(), 300);
}

TEST_F(SharedStateTest, AChangeThatThrowsIsDropped) {
  make().reset();
  const SharedState state = SharedState::open(file());
  SharedGpu& gpu = state.gpus()[0];
  EXPECT_THROW(change_shared_state(gpu,
                                   [](SharedGpuState& next) {
                                     next.writes = 77;
                                     throw Error("no");
                                   }),
               Error);
  EXPECT_EQ(change_shared_state(gpu, [](SharedGpuState& next) { return next.writes; }), 0U);
}

TEST_F(SharedStateTest, AMachineWhoseFileIsCutOffIsLostAndEndsNoProcess) {
  for (const std::uintmax_t bytes :
       {std::uintmax_t{0}, std::uintmax_t{100}, std::uintmax_t{4096}, std::uintmax_t{8192}}) {
    std::filesystem::remove(file());
    const auto machine = make();
    (void)machine->gpu(0).readings();
    std::filesystem::resize_file(file(), bytes);
    EXPECT_THROW((void)machine->gpu(0).readings(), SharedStateCutOff) << bytes;
    EXPECT_THROW(machine->gpu(0).control().lock_sm_clocks(345, 900), SharedStateCutOff) << bytes;
    EXPECT_THROW((void)machine->gpu(0).run({.compute_s = 1, .memory_s = 1}), Error) << bytes;
    EXPECT_GE(machine->now_s(), 0);
    EXPECT_EQ(machine->gpu(0).model().name.view(), machine->gpu(0).model().name.view());
    EXPECT_THROW((void)open(), InputError) << bytes;
  }
}

TEST_F(SharedStateTest, OtherMachinesGoOnWhenAFileIsCutOff) {
  const auto machine = make();
  const std::filesystem::path other = file().parent_path() / "other";
  const auto lost = SimulatedMachine::create(other, {.gpus = gpu_models_from_text("H100")});
  std::filesystem::resize_file(other, 0);
  EXPECT_THROW((void)lost->gpu(0).readings(), SharedStateCutOff);
  EXPECT_GT(machine->gpu(0).readings().power_limit_w, 0);
}

TEST_F(SharedStateTest, AFileThatIsCutOffWhileManyThreadsReadItEndsNone) {
  const auto machine = make();
  std::atomic<int> begun{0};
  std::atomic<int> lost{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      ++begun;
      try {
        while (true) (void)machine->gpu(0).readings();
      } catch (const SharedStateCutOff&) {
        ++lost;
      }
    });
  }
  while (begun < 8) std::this_thread::yield();
  std::filesystem::resize_file(file(), 0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 8);
}

TEST_F(SharedStateTest, ABusErrorElsewhereEndsTheProcessAsBefore) {
  const auto machine = make();
  ChildProcess child([this] {
    const auto mine = open();
    ::raise(SIGBUS);
    ::raise(SIGBUS);
  });
  const int status = child.wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

/// A change that writes a value to three places far apart, so that a torn state shows.
void write_everywhere(SharedGpuState& state, std::uint64_t value, const std::function<void(int)>& between) {
  state.writes = value;
  between(0);
  state.contexts.back().start_ticks = value;
  between(1);
  state.faults.back().delay_s = static_cast<double>(value);
  between(2);
}

std::uint64_t read_everywhere(SharedGpu& gpu) {
  return change_shared_state(gpu, [](SharedGpuState& state) {
    EXPECT_EQ(state.contexts.back().start_ticks, state.writes);
    EXPECT_EQ(state.faults.back().delay_s, static_cast<double>(state.writes));
    return state.writes;
  });
}

TEST_F(SharedStateTest, AProcessKilledWithinAChangeLeavesTheStateWhole) {
  make().reset();
  const SharedState state = SharedState::open(file());
  SharedGpu& gpu = state.gpus()[0];
  change_shared_state(gpu, [](SharedGpuState& next) { write_everywhere(next, 1, [](int) {}); });
  for (int place = 0; place < 3; ++place) {
    ChildProcess child([&] {
      change_shared_state(gpu, [&](SharedGpuState& next) {
        write_everywhere(next, 2, [&](int at) {
          if (at == place) ::raise(SIGKILL);
        });
      });
    });
    EXPECT_TRUE(WIFSIGNALED(child.wait()));
    EXPECT_EQ(read_everywhere(gpu), 1U) << place;  // and does not hang
  }
}

TEST_F(SharedStateTest, SurvivesKillsAtRandomTimes) {
  make().reset();
  const SharedState state = SharedState::open(file());
  SharedGpu& gpu = state.gpus()[0];
  std::mt19937 random(5);
  std::uint64_t last = 0;
  constexpr int kKills = 200;
  for (int kill = 0; kill < kKills; ++kill) {
    ChildProcess child([&] {
      for (;;) {
        change_shared_state(gpu, [](SharedGpuState& next) { write_everywhere(next, next.writes + 1, [](int) {}); });
      }
    });
    ASSERT_TRUE(eventually([&] { return read_everywhere(gpu) > last; }));
    last = read_everywhere(gpu);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
    child.kill();
    child.wait();
    const std::uint64_t value = read_everywhere(gpu);
    EXPECT_GE(value, last);
    last = value;
  }
}

TEST_F(SharedStateTest, MachinesSurviveKillsAtRandomTimes) {
  const auto machine = make("H100", SimulatedClock::real);
  SimulatedGpu& gpu = machine->gpu(0);
  std::mt19937 random(9);
  double energy_j = 0;
  constexpr int kKills = 100;
  for (int kill = 0; kill < kKills; ++kill) {
    ChildProcess child([this] {
      const auto mine = open();
      mine->gpu(0).attach_context();
      for (;;) {
        mine->gpu(0).run({.compute_s = 0.0002, .memory_s = 0.0002});
        mine->gpu(0).control().set_power_limit_w(300);
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    child.kill();
    child.wait();
    EXPECT_GE(gpu.true_energy_j(), energy_j);
    energy_j = gpu.true_energy_j();
    gpu.run({.memory_s = 1e-5});  // the GPU is free
  }
  machine->wait(0.15);
  EXPECT_THAT(gpu.context_pids(), testing::IsEmpty());
}

TEST_F(SharedStateTest, AKernelEndsWithItsProcess) {
  const auto machine = make("H100", SimulatedClock::real);
  SimulatedGpu& gpu = machine->gpu(0);
  ChildProcess child([this] {
    const auto mine = open();
    mine->gpu(0).attach_context();
    mine->gpu(0).run({.memory_s = 3600});
  });
  while (gpu.readings().gpu_utilisation_percent < 50) machine->wait(0.01);
  EXPECT_THAT(gpu.context_pids(), testing::ElementsAre(static_cast<std::uint32_t>(child.pid())));
  child.kill();
  child.wait();
  const double before_j = gpu.true_energy_j();
  machine->wait(0.3);
  EXPECT_LT((gpu.true_energy_j() - before_j) / 0.3, 150);  // copying takes 375 W
  EXPECT_LT(gpu.run({.memory_s = 1e-4}), 1);               // would wait an hour
  machine->wait(0.15);
  EXPECT_THAT(gpu.context_pids(), testing::IsEmpty());
}

TEST_F(SharedStateTest, AKernelEndsWhenItsGpuIsLost) {
  const auto machine = make("H100", SimulatedClock::real);
  ChildProcess child([this] {
    try {
      open()->gpu(0).run({.memory_s = 3600});
    } catch (const Error&) {
      return;
    }
    throw Error("the kernel went on");
  });
  while (machine->gpu(0).readings().gpu_utilisation_percent < 50) machine->wait(0.01);
  machine->gpu(0).faults().inject({.lost = true});
  EXPECT_TRUE(child.succeeded());
  machine->wait(0.4);
  EXPECT_EQ(machine->gpu(0).readings().gpu_utilisation_percent, 0);
}

TEST_F(SharedStateTest, KernelsOfTwoProcessesTakeTurns) {
  const auto machine = make("H100", SimulatedClock::real);
  machine->gpu(0).attach_context();
  machine->wait(0.1);
  const double before_s = machine->now_s();
  const auto run = [this] {
    const auto mine = open();
    for (int i = 0; i < 5; ++i) mine->gpu(0).run({.memory_s = 0.004});
  };
  ChildProcess one(run);
  ChildProcess two(run);
  EXPECT_TRUE(one.succeeded());
  EXPECT_TRUE(two.succeeded());
  EXPECT_GE(machine->now_s() - before_s, 0.040);
}

TEST_F(SharedStateTest, ThreadsMayUseOneMachine) {
  const auto machine = make("H100");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 100; ++n) {
        machine->gpu(0).control().set_persistence_mode(n % 2 == 0);
        machine->gpu(0).run({.memory_s = 0.001, .memory_load = 0.1});
        (void)machine->gpu(0).readings().average_power_w;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(machine->gpu(0).writes(), 400U);
  EXPECT_GE(machine->now_s(), 0.399);
}

TEST(SharedContexts, TellsALivingProcessFromADeadOne) {
  const SharedContext self = this_process();
  EXPECT_EQ(self.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_FALSE(has_ended(self));
  SharedContext earlier = self;  // a process of the same number that ended before
  earlier.start_ticks -= 1;
  EXPECT_TRUE(has_ended(earlier));
  SharedContext elsewhere = self;  // of another container: cannot be told
  elsewhere.pid_namespace += 1;
  elsewhere.pid = 999'999'999;
  EXPECT_FALSE(has_ended(elsewhere));
  SharedContext none = self;
  none.pid = 999'999'999;
  EXPECT_TRUE(has_ended(none));
}

}  // namespace
}  // namespace lowgear::simgpu
