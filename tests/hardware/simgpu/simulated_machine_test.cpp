#include "hardware/simgpu/simulated_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstddef>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "hardware/simgpu/physics.h"
#include "hardware/simgpu/shared_state.h"
#include "hardware/simgpu/simgpu_fixture.h"

namespace lowgear::simgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(SimulatedMachineTest, IsForEveryUserWhereItRequiresNoRoot) {
  const auto mode_of = [&](std::string_view name, bool root_required) {
    const std::filesystem::path path = file().parent_path() / name;
    (void)SimulatedMachine::create(
        path,
        {.gpus = gpu_models_from_text("H100"), .clock = SimulatedClock::virtual_, .root_required = root_required});
    return static_cast<unsigned>(std::filesystem::status(path).permissions());
  };
  const mode_t before = ::umask(022);
  EXPECT_EQ(mode_of("strict", true), 0644U);
  EXPECT_EQ(mode_of("open", false), 0666U);
  ::umask(before);
}

TEST_F(SimulatedMachineTest, AModelIsAlsoFoundByTheDriversName) {
  for (const SimulatedGpuModel& model : gpu_models()) {
    EXPECT_EQ(find_gpu_model(model.name.view()).key.view(), model.key.view());
  }
  EXPECT_EQ(gpu_models_from_text("2xNVIDIA H100 80GB HBM3,NVIDIA A40+power").size(), 3U);
}

TEST_F(SimulatedMachineTest, GpusHaveNamesOfTheirOwn) {
  const auto machine = make("2xH100,A40");
  ASSERT_EQ(machine->gpus(), 3);
  EXPECT_NE(machine->gpu(0).uuid(), machine->gpu(1).uuid());
  EXPECT_THAT(machine->gpu(0).uuid(), testing::MatchesRegex("GPU-........-....-4...-a...-............"));
  EXPECT_EQ(machine->gpu(2).pci_address(), "0000:03:00.0");
  EXPECT_EQ(machine->gpu(2).model().name.view(), "NVIDIA A40");
  EXPECT_THROW((void)machine->gpu(3), InputError);
  EXPECT_THROW((void)machine->gpu(-1), InputError);
}

TEST_F(SimulatedMachineTest, VirtualTimeStandsStill) {
  const auto machine = make();
  EXPECT_EQ(machine->now_s(), 0);
  machine->advance(12.5);
  EXPECT_EQ(machine->now_s(), 12.5);
  EXPECT_NEAR(machine->gpu(0).true_energy_j(), 12.5 * 68.4, 10);
  machine->wait(1);
  EXPECT_EQ(machine->now_s(), 13.5);
  for (const double time_s : {-1.0, std::nan(""), 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(machine->advance(time_s), InputError) << time_s;
  }
}

TEST_F(SimulatedMachineTest, RealTimeCannotBeAdvanced) {
  const auto machine = make("H100", SimulatedClock::real);
  EXPECT_THAT(error_of<Error>([&] { machine->advance(1); }), HasSubstr("real time"));
  const double before_s = machine->now_s();
  machine->wait(0.002);
  EXPECT_GE(machine->now_s(), before_s + 0.002);
}

TEST_F(SimulatedMachineTest, KernelsAdvanceVirtualTime) {
  const auto machine = make();
  SimulatedGpu& gpu = machine->gpu(0);
  gpu.attach_context();
  machine->advance(1);
  EXPECT_NEAR(gpu.run({.compute_s = 0.5, .memory_s = 0.25, .compute_load = 0.2}), 0.75, 1e-8);
  EXPECT_NEAR(machine->now_s(), 1.75, 1e-8);
  EXPECT_EQ(gpu.run({}), 0);
}

TEST_F(SimulatedMachineTest, KernelsRunInRealTime) {
  const auto machine = make("H100", SimulatedClock::real);
  SimulatedGpu& gpu = machine->gpu(0);
  gpu.attach_context();
  machine->wait(0.2);
  const double before_s = machine->now_s();
  const double elapsed_s = gpu.run({.compute_s = 0, .memory_s = 0.02});
  EXPECT_NEAR(elapsed_s, 0.02, 1e-6);
  EXPECT_GE(machine->now_s() - before_s, 0.02);
}

TEST_F(SimulatedMachineTest, TheSameSeedGivesTheSameRun) {
  const auto energies_j = [&](const char* name) {
    const auto machine =
        SimulatedMachine::create(file().parent_path() / name,
                                 {.gpus = gpu_models_from_text("H100"), .clock = SimulatedClock::virtual_, .seed = 42});
    SimulatedGpu& gpu = machine->gpu(0);
    std::vector<double> readings;
    gpu.attach_context();
    for (int i = 0; i < 50; ++i) {
      gpu.control().lock_sm_clocks(345, 900 + 15 * (i % 20));
      gpu.run({.compute_s = 0.01 * (i % 7), .memory_s = 0.02});
      readings.insert(readings.end(), {gpu.true_energy_j(), gpu.readings().energy_counter_j, machine->now_s(),
                                       static_cast<double>(gpu.readings().sm_clock_mhz)});
    }
    return readings;
  };
  EXPECT_EQ(energies_j("one"), energies_j("two"));
}

TEST_F(SimulatedMachineTest, LockingClocksTakesACallAndATransition) {
  const auto machine = make();
  SimulatedGpu& gpu = machine->gpu(0);
  gpu.attach_context();
  machine->advance(1);
  gpu.control().lock_sm_clocks(345, 990);
  EXPECT_GT(machine->now_s(), 1.005);
  EXPECT_LT(machine->now_s(), 1.04);
  EXPECT_EQ(gpu.readings().sm_clock_mhz, 1980);
  machine->advance(0.5);
  EXPECT_EQ(gpu.readings().sm_clock_mhz, 990);
  ASSERT_TRUE(gpu.locked_sm_clocks());
  EXPECT_EQ(gpu.locked_sm_clocks()->min_mhz, 345);
  EXPECT_EQ(gpu.locked_sm_clocks()->max_mhz, 990);
  EXPECT_EQ(gpu.writes(), 1U);
  gpu.control().reset_sm_clocks();
  EXPECT_FALSE(gpu.locked_sm_clocks());
  EXPECT_EQ(gpu.writes(), 2U);
  machine->advance(0.5);
  EXPECT_EQ(gpu.readings().sm_clock_mhz, 1980);
}

TEST_F(SimulatedMachineTest, OtherSettersWork) {
  const auto machine = make("A40");
  SimulatedGpu& gpu = machine->gpu(0);
  gpu.attach_context();
  gpu.control().set_power_limit_w(150);
  EXPECT_EQ(gpu.readings().power_limit_w, 150);
  gpu.control().lock_memory_clocks(405, 7000);
  EXPECT_EQ(gpu.readings().memory_clock_mhz, 6501);
  gpu.control().reset_memory_clocks();
  EXPECT_EQ(gpu.readings().memory_clock_mhz, 7251);
  EXPECT_TRUE(gpu.readings().persistence_mode);
  gpu.control().set_persistence_mode(false);
  EXPECT_FALSE(gpu.readings().persistence_mode);
  EXPECT_EQ(gpu.writes(), 4U);
}

TEST_F(SimulatedMachineTest, SettersRefuseNonsense) {
  const auto machine = make();
  SimulatedGpu& gpu = machine->gpu(0);
  EXPECT_THROW(gpu.control().lock_sm_clocks(0, 0), InputError);
  EXPECT_THROW(gpu.control().lock_sm_clocks(-5, 900), InputError);
  EXPECT_THROW(gpu.control().lock_sm_clocks(900, 800), InputError);
  EXPECT_THROW(gpu.control().lock_memory_clocks(1, 100), InputError);
  EXPECT_THROW(gpu.control().set_power_limit_w(199), InputError);
  EXPECT_THROW(gpu.control().set_power_limit_w(std::nan("")), InputError);
  EXPECT_EQ(gpu.writes(), 0U);
  const double nan = std::nan("");
  for (const SimulatedKernel& kernel : std::vector<SimulatedKernel>{{.compute_s = -1},
                                                                    {.compute_s = nan},
                                                                    {.memory_s = kMaxKernelS * 2},
                                                                    {.compute_s = kMaxKernelS, .memory_s = 1},
                                                                    {.compute_s = 1, .compute_load = 1.1},
                                                                    {.compute_s = 1, .memory_load = nan}}) {
    EXPECT_THROW(gpu.run(kernel), InputError);
  }
}

TEST_F(SimulatedMachineTest, ReadingsNeverGoBack) {
  const auto machine = make("A100");
  SimulatedGpu& gpu = machine->gpu(0);
  gpu.attach_context();
  double counter_j = 0;
  double true_j = 0;
  for (int i = 0; i < 300; ++i) {
    gpu.run({.compute_s = 0.001 * (i % 10), .memory_s = 0.005});
    EXPECT_GE(gpu.readings().energy_counter_j, counter_j);
    EXPECT_GE(gpu.true_energy_j(), true_j);
    counter_j = gpu.readings().energy_counter_j;
    true_j = gpu.true_energy_j();
    EXPECT_LE(counter_j, true_j);
  }
}

TEST_F(SimulatedMachineTest, ContextsAreCounted) {
  const auto machine = make();
  SimulatedGpu& gpu = machine->gpu(0);
  EXPECT_THAT(gpu.context_pids(), IsEmpty());
  gpu.detach_context();  // of none: nothing happens
  gpu.attach_context();
  gpu.attach_context();
  EXPECT_THAT(gpu.context_pids(), ElementsAre(static_cast<std::uint32_t>(::getpid())));
  gpu.detach_context();
  machine->advance(10);
  EXPECT_EQ(gpu.readings().sm_clock_mhz, 1980);
  gpu.detach_context();
  machine->advance(10);
  EXPECT_EQ(gpu.readings().sm_clock_mhz, 345);
  EXPECT_EQ(gpu.readings().throttle_reasons, kReasonIdle);
}

// Faults.

TEST_F(SimulatedMachineTest, ASlowedGpuTakesLongerAtTheSamePower) {
  const auto machine = make("2xH100");
  machine->gpu(1).slow_down(1.2);
  EXPECT_EQ(machine->gpu(1).slowdown(), 1.2);
  double time_s[2];
  double energy_j[2];
  for (const int index : {0, 1}) {
    SimulatedGpu& gpu = machine->gpu(index);
    gpu.attach_context();
    (void)gpu.run({.compute_s = 1, .memory_s = 0, .compute_load = 0.35, .memory_load = 0});  // up to its clock
    const double before_j = gpu.true_energy_j();
    time_s[index] = gpu.run({.compute_s = 1, .memory_s = 0.5, .compute_load = 0.35, .memory_load = 0.5});
    energy_j[index] = gpu.true_energy_j() - before_j;
    gpu.detach_context();
  }
  EXPECT_NEAR(time_s[1] / time_s[0], 1.2, 1e-3);
  EXPECT_NEAR(energy_j[1] / energy_j[0], 1.2, 0.02);
  machine->gpu(1).slow_down(1);
  EXPECT_NEAR(machine->gpu(1).run({.compute_s = 1, .memory_s = 0, .compute_load = 0, .memory_load = 0}), 1, 1e-3);
  for (const double factor : {0.9, 11.0, std::nan("")}) {
    EXPECT_THROW(machine->gpu(0).slow_down(factor), InputError) << factor;
  }
}

TEST_F(SimulatedMachineTest, FaultsStrikeTheirCall) {
  const auto machine = make();
  SimulatedGpu& gpu = machine->gpu(0);
  gpu.faults().inject({.call = "DeviceSetGpuLockedClocks", .return_code = 15, .count = 2});
  gpu.faults().inject({.call = "*", .delay_s = 0.25, .count = 3});
  EXPECT_EQ(gpu.faults().next("DeviceGetPowerUsage").return_code, 0U);
  EXPECT_EQ(gpu.faults().next("DeviceSetGpuLockedClocks").return_code, 15U);
  EXPECT_EQ(gpu.faults().all().size(), 2U);
  const SimulatedFault last = gpu.faults().next("DeviceSetGpuLockedClocks");
  EXPECT_EQ(last.return_code, 15U);
  EXPECT_EQ(last.delay_s, 0.25);
  EXPECT_THAT(gpu.faults().all(), IsEmpty());
  EXPECT_EQ(gpu.faults().next("DeviceSetGpuLockedClocks").return_code, 0U);
}

TEST_F(SimulatedMachineTest, FaultsWithoutACountStay) {
  const auto machine = make();
  SimulatedGpu& gpu = machine->gpu(0);
  gpu.faults().inject({.call = "*", .return_code = 999});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(gpu.faults().next("DeviceGetName").return_code, 999U);
  gpu.faults().clear();
  EXPECT_EQ(gpu.faults().next("DeviceGetName").return_code, 0U);
}

TEST_F(SimulatedMachineTest, AStuckClockDoesNotFollowUntilFaultsAreCleared) {
  const auto machine = make();
  SimulatedGpu& gpu = machine->gpu(0);
  gpu.attach_context();
  machine->advance(1);
  gpu.faults().inject({.clock_stuck = true});
  gpu.control().lock_sm_clocks(345, 900);
  machine->advance(1);
  EXPECT_EQ(gpu.readings().sm_clock_mhz, 1980);
  EXPECT_EQ(gpu.locked_sm_clocks()->max_mhz, 900);
  EXPECT_TRUE(gpu.faults().next("DeviceSetGpuLockedClocks").clock_stuck);
  gpu.faults().clear();
  machine->advance(1);
  EXPECT_EQ(gpu.readings().sm_clock_mhz, 900);
}

TEST_F(SimulatedMachineTest, ALostGpuRunsNothing) {
  const auto machine = make();
  SimulatedGpu& gpu = machine->gpu(0);
  gpu.faults().inject({.lost = true});
  EXPECT_TRUE(gpu.faults().next("DeviceGetName").lost);
  EXPECT_THAT(error_of<Error>([&] { gpu.run({.compute_s = 1}); }), HasSubstr("lost"));
  gpu.faults().clear();
  EXPECT_GT(gpu.run({.compute_s = 1}), 0.9);
}

TEST_F(SimulatedMachineTest, FaultsAreBounded) {
  const auto machine = make();
  SimulatedGpu& gpu = machine->gpu(0);
  EXPECT_THROW(gpu.faults().inject({.call = ""}), InputError);
  EXPECT_THROW(gpu.faults().inject({.call = std::string(64, 'a')}), InputError);
  EXPECT_THROW(gpu.faults().inject({.delay_s = -1}), InputError);
  EXPECT_THROW(gpu.faults().inject({.delay_s = std::nan("")}), InputError);
  gpu.faults().inject({.count = 0});  // strikes nothing, takes no place
  for (int i = 0; i < kMaxSimulatedFaults; ++i) gpu.faults().inject({.call = std::string(63, 'a')});
  EXPECT_THAT(error_of<Error>([&] { gpu.faults().inject({}); }), HasSubstr("clear them first"));
}

// The file.

TEST_F(SimulatedMachineTest, AnExistingFileIsNotReplaced) {
  const auto machine = make();
  EXPECT_THAT(error_of<Error>([&] { make(); }), HasSubstr("exists already"));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(file().parent_path())) ++files;
  EXPECT_EQ(files, 1U);  // no temporary is left
}

TEST_F(SimulatedMachineTest, BadConfigurationsAreRefused) {
  EXPECT_THROW((void)SimulatedMachine::create(file(), {}), InputError);
  EXPECT_THROW((void)SimulatedMachine::create(file(), {.gpus = std::vector<SimulatedGpuModel>(65, gpu_models()[0])}),
               InputError);
  EXPECT_THROW((void)SimulatedMachine::create(file(), {.gpus = {SimulatedGpuModel{}}}), InputError);
  EXPECT_THROW((void)SimulatedMachine::create(file() / "below" / "nothing", {.gpus = gpu_models_from_text("H100")}),
               InputError);
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(SimulatedMachineTest, BadFilesAreRefused) {
  EXPECT_THAT(error_of<Error>([&] { (void)open(); }), HasSubstr("cannot be opened"));
  EXPECT_THAT(error_of<Error>([&] { (void)SimulatedMachine::open(file().parent_path()); }),
              HasSubstr("cannot be opened"));
  EXPECT_THAT(error_of<Error>([&] { (void)SimulatedMachine::open("/dev/null"); }),
              HasSubstr("not a simulated machine"));
  std::ofstream(file()) << "";
  EXPECT_THAT(error_of<Error>([&] { (void)open(); }), HasSubstr("not a simulated machine"));
  std::ofstream(file()) << std::string(100'000, 'x');
  EXPECT_THAT(error_of<Error>([&] { (void)open(); }), HasSubstr("not a simulated machine"));
}

TEST_F(SimulatedMachineTest, DamagedFilesAreRefused) {
  make().reset();
  std::string whole;
  {
    std::ifstream stream(file(), std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(stream), {});
  }
  const auto write = [&](const std::string& content) { std::ofstream(file(), std::ios::binary) << content; };
  write(whole);
  EXPECT_NO_THROW((void)open());
  for (const std::size_t size : {std::size_t{10}, std::size_t{4096}, whole.size() - 1, whole.size() + 4096}) {
    std::string cut = whole;
    cut.resize(size);
    write(cut);
    EXPECT_THROW((void)open(), InputError) << size;
  }
  const auto open_changed = [&](std::size_t offset) {
    std::string changed = whole;
    changed[offset] = static_cast<char>(changed[offset] ^ 0x55);
    write(changed);
    return error_of<Error>([&] { (void)open(); });
  };
  for (const std::size_t offset : {0, 8, 12, 16, 20, 24, 40}) {  // magic, version, sizes, count, clock, seed, epoch
    EXPECT_THAT(open_changed(offset), HasSubstr("simulated machine")) << offset;
  }
  EXPECT_THAT(open_changed(whole.find('-') - 8),
              HasSubstr("damaged"));  // the boot's number, the first UUID in the file
  // The first GPU, up to its mutexes.
  for (std::size_t offset = 4096; offset < 4096 + offsetof(SharedGpu, state_mutex); offset += 7) {
    EXPECT_THAT(open_changed(offset), HasSubstr("damaged")) << offset;
  }
  const std::size_t published = 4096 + offsetof(SharedGpu, copies);
  for (std::size_t offset = published; offset < published + sizeof(SharedGpuState); offset += 13) {
    EXPECT_THAT(open_changed(offset), HasSubstr("damaged")) << offset;
  }
}

TEST_F(SimulatedMachineTest, AFileFromBeforeARebootIsRefused) {
  make().reset();
  {
    const SharedState state = SharedState::open(file());
    SharedHeader& header = state.header();
    header.constant.boot_id = "an-earlier-boot";
    header.constant_checksum = checksum_of(header.constant);
  }
  EXPECT_THAT(error_of<Error>([&] { (void)open(); }), HasSubstr("before the last reboot"));
}

// The environment.

class SimulatedEnvironment : public SimulatedMachineTest {
 protected:
  ~SimulatedEnvironment() override {
    ::unsetenv("LOWGEAR_SIMGPU");
    ::unsetenv("LOWGEAR_SIMGPU_GPUS");
  }
};

/// Whether the first kernel of the machine's first GPU runs, as it was last looked at.
bool first_kernel_runs(const std::filesystem::path& file) {
  const SharedState state = SharedState::open(file);
  SharedGpu& gpu = state.gpus()[0];
  const RobustLock lock(gpu.state_mutex);
  return gpu.copies.at(gpu.published.load()).physics.kernels[0].active;
}

TEST_F(SimulatedMachineTest, ProcessesRunKernelsConcurrentlyWhereTheyShareTheGpu) {
  const auto machine = make("H100", SimulatedClock::real);
  SimulatedGpu& gpu = machine->gpu(0);
  gpu.attach_context();
  gpu.share_kernels(KernelSharing::concurrent);
  ChildProcess other([this] {
    (void)open()->gpu(0).run({.compute_s = 1000, .compute_load = 0.1, .sm_share = 0.5});  // until it is killed
  });
  while (!first_kernel_runs(file())) machine->wait(0.001);
  machine->wait(0.3);  // the clock has risen
  EXPECT_NEAR(gpu.run({.compute_s = 0.02, .compute_load = 0.1, .sm_share = 0.5}), 0.02, 1e-4);
  EXPECT_NEAR(gpu.run({.compute_s = 0.02, .compute_load = 0.1, .sm_share = 1}), 0.03, 1e-4);
  EXPECT_TRUE(first_kernel_runs(file())) << "it was not waited for";
  other.kill();
  (void)other.wait();
  EXPECT_NEAR(gpu.run({.compute_s = 0.02, .compute_load = 0.1, .sm_share = 1}), 0.02, 1e-4);
  EXPECT_FALSE(first_kernel_runs(file()));
}

TEST_F(SimulatedMachineTest, RefusesKernelsWiderThanTheGpu) {
  const auto machine = make();
  EXPECT_THROW((void)machine->gpu(0).run({.compute_s = 1, .sm_share = 0}), InputError);
  EXPECT_THROW((void)machine->gpu(0).run({.compute_s = 1, .sm_share = 1.1}), InputError);
  EXPECT_THROW((void)machine->gpu(0).run({.compute_s = 1, .sm_share = std::nan("")}), InputError);
}

TEST_F(SimulatedEnvironment, MakesTheMachineOnFirstUse) {
  EXPECT_THAT(error_of<Error>([] { (void)SimulatedMachine::from_environment(); }),
              HasSubstr("LOWGEAR_SIMGPU is not set"));
  ::setenv("LOWGEAR_SIMGPU", file().c_str(), 1);
  ::setenv("LOWGEAR_SIMGPU_GPUS", "2xA40", 1);
  EXPECT_EQ(SimulatedMachine::from_environment()->gpus(), 2);
  ::setenv("LOWGEAR_SIMGPU_GPUS", "5xH100", 1);  // it is there already
  EXPECT_EQ(SimulatedMachine::from_environment()->gpus(), 2);
}

TEST_F(SimulatedEnvironment, ManyProcessesMakeOneMachine) {
  ::setenv("LOWGEAR_SIMGPU", file().c_str(), 1);
  ::setenv("LOWGEAR_SIMGPU_GPUS", "H100", 1);
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(std::make_unique<ChildProcess>(
        [] { SimulatedMachine::from_environment()->gpu(0).control().set_persistence_mode(true); }));
  }
  for (const auto& child : children) EXPECT_TRUE(child->succeeded());
  EXPECT_EQ(open()->gpu(0).writes(), 8U);
}

TEST_F(SimulatedEnvironment, WrongGpusAreNamed) {
  ::setenv("LOWGEAR_SIMGPU", file().c_str(), 1);
  ::setenv("LOWGEAR_SIMGPU_GPUS", "3xP100", 1);
  EXPECT_THAT(error_of<Error>([] { (void)SimulatedMachine::from_environment(); }), HasSubstr("\"P100\""));
  EXPECT_FALSE(std::filesystem::exists(file()));
}

}  // namespace
}  // namespace lowgear::simgpu
