#include "app/operations/doctor/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "app/operations/doctor/good_machine.h"

namespace lowgear::operations::doctor {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

auto finding(FindingLevel level, const std::string& topic, const std::string& text, const std::string& fix = "") {
  return AllOf(Field(&Finding::level, level), Field(&Finding::topic, topic), Field(&Finding::text, HasSubstr(text)),
               Field(&Finding::fix, HasSubstr(fix)));
}

std::string fix_of_driver(const MachineFacts& facts) { return diagnose(facts).at(0).fix; }

TEST(Diagnosis, FindsNothingWrongWhereEverythingWorks) {
  const std::vector<Finding> findings = diagnose(good_machine());
  EXPECT_THAT(findings, Not(Contains(Field(&Finding::level, Not(FindingLevel::works)))));
  EXPECT_TRUE(can_measure(findings));
  EXPECT_THAT(findings, Contains(finding(FindingLevel::works, "GPU 0",
                                         "3 SM clocks from 345 to 1980 MHz, power limit 700 W (200 to 700 W)")));
}

TEST(Diagnosis, SaysThatAPowerLimitWasLowered) {
  MachineFacts facts = good_machine();
  gpu::GpuSurvey& gpu = facts.nvml->gpus[0];
  gpu.identity.name = "NVIDIA H100 80GB HBM3";
  gpu.power_limits->enforced_w = 500;
  EXPECT_THAT(diagnose(facts),
              Contains(finding(FindingLevel::limited, "GPU 0",
                               "power limit of 500 W, not its usual 700 W: matrix products take some ", " -pl 700")));
  gpu.identity.name = "NVIDIA of the future";
  EXPECT_THAT(diagnose(facts),
              Contains(Field(&Finding::text, testing::StrEq("power limit of 500 W, not its usual 700 W"))));
}

TEST(Diagnosis, WithoutADriverSaysWhatIsMissingFirst) {
  MachineFacts facts = machine_without_nvml();
  EXPECT_FALSE(can_measure(diagnose(facts)));
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("libnvidia-ml1")) << "kernel module and devices are there";
  facts.device_nodes = false;
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("nvidia-modprobe"));
  facts.kernel_module_version = "";
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("modprobe nvidia"));
  facts.container = "docker";
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("docker run --gpus all"));
  facts.container = "podman";
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("podman run"));
  facts.container = "kubernetes";
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("nvidia.com/gpu"));
  facts.nvidia_pci_gpus = 0;
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("lowgear simgpu create"));
  facts.simulated_machine = "/dev/shm/simgpu";
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("package lowgear-simgpu"));
  facts.simulated_nvml = "/lib/simgpu/libnvidia-ml.so.1";
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("export LOWGEAR_NVML=/lib/simgpu/libnvidia-ml.so.1"));
  facts.nvml_override = "/nowhere";
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("unset"));
  facts.nvml_override = facts.simulated_nvml;
  facts.simulated_machine = "";
  EXPECT_THAT(fix_of_driver(facts), HasSubstr("export LOWGEAR_SIMGPU=FILE"));
}

TEST(Diagnosis, SaysSimulatedAloud) {
  MachineFacts facts = good_machine();
  facts.nvml->simulated = true;
  EXPECT_THAT(diagnose(facts).at(0).text, HasSubstr("SIMULATED"));
}

TEST(Diagnosis, EnergyCanComeFromPowerButFromSomewhereItMust) {
  MachineFacts facts = good_machine();
  gpu::GpuSurvey& gpu = facts.nvml->gpus[0];
  status_of(gpu, gpu::GpuFeature::energy_counter) = {
      .works = false, .code = gpu::GpuErrorCode::not_supported, .reason = "why"};
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::limited, "GPU 0", "integrating power")));
  EXPECT_TRUE(can_measure(diagnose(facts)));
  status_of(gpu, gpu::GpuFeature::average_power).works = false;
  EXPECT_TRUE(can_measure(diagnose(facts))) << "there is instant power";
  status_of(gpu, gpu::GpuFeature::instant_power).works = false;
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::broken, "GPU 0", "neither energy nor power")));
  EXPECT_FALSE(can_measure(diagnose(facts)));
}

bool is_extra(gpu::GpuFeature feature) {
  return feature == gpu::GpuFeature::workload_power_profiles || feature == gpu::GpuFeature::power_smoothing;
}

TEST(Diagnosis, SaysThatAnEnergyCounterCannotBeRight) {
  MachineFacts facts = good_machine();
  facts.wrong_counters["GPU-1"] =
      "the energy counter shows no energy for 1.2 s, and the power readings 70 W on average";
  const std::vector<Finding> findings = diagnose(facts);
  EXPECT_THAT(findings,
              Contains(finding(FindingLevel::limited, "GPU 0", "shows no energy for 1.2 s", "--gpu-reset -i 0")));
  EXPECT_THAT(findings, Not(Contains(finding(FindingLevel::works, "GPU 0", "own counter"))));
  EXPECT_TRUE(can_measure(findings)) << "by the power readings";
}

TEST(Diagnosis, NamesTheStepOfASimulatedGpuWhoseCounterIsWrong) {
  MachineFacts facts = good_machine();
  facts.nvml->simulated = true;
  facts.wrong_counters["GPU-1"] = "the energy counter did not answer all the time";
  const std::vector<Finding> findings = diagnose(facts);
  EXPECT_THAT(findings, Contains(finding(FindingLevel::limited, "GPU 0", "did not answer", "simgpu reset --gpu 0")));
  EXPECT_THAT(findings, Not(Contains(Field(&Finding::fix, HasSubstr("nvidia-smi --gpu-reset")))));
}

TEST(Diagnosis, ShowsPowerFeaturesOnlyWhereAGpuHasThem) {
  MachineFacts facts = good_machine();
  gpu::GpuSurvey& gpu = facts.nvml->gpus[0];
  for (const gpu::GpuFeature feature : {gpu::GpuFeature::workload_power_profiles, gpu::GpuFeature::power_smoothing}) {
    status_of(gpu, feature) = {.works = false, .code = gpu::GpuErrorCode::not_supported, .reason = "why"};
  }
  EXPECT_THAT(diagnose(facts), Not(Contains(Field(&Finding::text, HasSubstr("power smoothing")))));
  EXPECT_THAT(diagnose(facts), Not(Contains(Field(&Finding::text, HasSubstr("power_profiles")))));
  gpu.workload_power_profiles = {.supported = 0b11, .requested = 0b11, .enforced = 0b01};
  gpu.power_smoothing.emplace().enabled = true;
  EXPECT_THAT(diagnose(facts),
              Contains(finding(FindingLevel::works, "GPU 0", "workload power profiles max_p, max_q; enforced: max_p")));
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::works, "GPU 0", "power smoothing, which is on")));
}

TEST(Diagnosis, NamesEveryFeatureThatIsMissing) {
  MachineFacts facts = good_machine();
  for (gpu::GpuFeatureStatus& status : facts.nvml->gpus[0].features) {
    status = {.works = false, .code = gpu::GpuErrorCode::not_supported, .reason = "the reason"};
  }
  status_of(facts.nvml->gpus[0], gpu::GpuFeature::energy_counter).works = true;
  const std::vector<Finding> findings = diagnose(facts);
  for (int i = 0; i < gpu::kGpuFeatureCount; ++i) {
    const auto feature = static_cast<gpu::GpuFeature>(i);
    if (feature == gpu::GpuFeature::energy_counter || is_extra(feature)) continue;
    EXPECT_THAT(findings,
                Contains(finding(FindingLevel::limited, "GPU 0", "no " + std::string(name(feature)) + ": the reason")));
  }
  EXPECT_TRUE(can_measure(findings));
}

TEST(Diagnosis, TellsOfMigWholeModulesAndPersistence) {
  MachineFacts facts = good_machine();
  facts.nvml->gpus[0].identity.mig_enabled = true;
  facts.nvml->gpus[0].identity.counts_whole_module = true;
  facts.nvml->gpus[0].persistence_mode = false;
  const std::vector<Finding> findings = diagnose(facts);
  EXPECT_THAT(findings, Contains(finding(FindingLevel::limited, "GPU 0", "MIG", "-i 0000:00:06.0 -mig 0")));
  EXPECT_THAT(findings, Contains(finding(FindingLevel::limited, "GPU 0", "whole module")));
  EXPECT_THAT(findings, Contains(finding(FindingLevel::limited, "GPU 0", "persistence", "-pm 1")));
  facts.nvml->gpus[0].persistence_mode.reset();
  EXPECT_THAT(diagnose(facts), Not(Contains(Field(&Finding::text, HasSubstr("persistence"))))) << "not known";
}

TEST(Diagnosis, LostAndAbsentGpusAreBroken) {
  MachineFacts facts = good_machine();
  facts.nvml->problems = {"GPU number 1: handle: GPU is lost"};
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::broken, "GPU", "is lost", "dmesg")));
  facts.nvml->problems.clear();
  facts.nvml->gpus.clear();
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::broken, "GPU", "no GPU", "nvidia-smi -L")));
}

TEST(Diagnosis, ClocksNeedTheAgentOrRoot) {
  MachineFacts facts = good_machine();
  facts.agent = AgentReach::absent;
  EXPECT_THAT(diagnose(facts),
              Contains(finding(FindingLevel::limited, "clocks", "none answers", "sudo lowgear agent init")));
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::limited, "agent", "does not answer: there is no",
                                                "sudo lowgear agent init, once")));
  facts.root = true;
  EXPECT_THAT(diagnose(facts),
              Contains(finding(FindingLevel::limited, "agent", "does not answer", "lowgear agent init")));
  EXPECT_THAT(diagnose(facts), Not(Contains(Field(&Finding::fix, HasSubstr("sudo")))));
  facts.root = false;
  facts.cap_sys_admin = true;
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::works, "clocks", "not tested")));
  facts.agent = AgentReach::answers;
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::works, "clocks", "set by the agent")));
}

TEST(Diagnosis, StepsOnSimulatedGpusAreForThese) {
  MachineFacts facts = good_machine();
  facts.nvml->simulated = true;
  facts.simulated_machine = "/dev/shm/simgpu";
  facts.agent = AgentReach::absent;
  const std::vector<Finding> findings = diagnose(facts);
  const std::string step = "lowgear agent --config trial/agent.yaml";
  EXPECT_THAT(findings, Contains(finding(FindingLevel::limited, "agent", "there is no", step)));
  EXPECT_THAT(findings, Contains(finding(FindingLevel::limited, "clocks", "none answers", step)));
  EXPECT_THAT(findings, Not(Contains(Field(&Finding::fix, HasSubstr("sudo lowgear")))));
  EXPECT_THAT(next_step(facts, findings), HasSubstr("an agent for the simulated GPUs"));
}

TEST(Diagnosis, TellsTheSwitchLatencyAndWhatToDoWithIt) {
  MachineFacts facts = good_machine();
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::works, "clocks", "switch latency not measured",
                                                "lowgear doctor --measure-switch-latency")));
  facts.switch_latencies = {{.uuid = "GPU-1", .latency = profile::SwitchLatency{0.0251, 0.0004, 22}, .problem = {}}};
  EXPECT_THAT(diagnose(facts),
              Contains(finding(FindingLevel::works, "GPU 0", "25.1 +-0.4 ms", "--switch-latency 25.1")));
  MachineFacts several = facts;
  several.switch_latencies->front().latency->latency_s = 0.03;
  for (const GpuSwitchLatency& other : {facts.switch_latencies->front(), GpuSwitchLatency{"GPU-3", {}, "busy"}}) {
    several.nvml->gpus.push_back(several.nvml->gpus.front());
    several.switch_latencies->push_back(other);
  }
  const std::vector<Finding> findings = diagnose(several);
  EXPECT_THAT(findings, Contains(finding(FindingLevel::works, "GPU 0", "30.0 +-0.4 ms", "--switch-latency 30.0")));
  EXPECT_THAT(findings, Contains(Field(&Finding::fix, HasSubstr("lowgear plan "))).Times(1)) << "one for all GPUs";
  facts.switch_latencies = {{.uuid = "GPU-1", .latency = {}, .problem = "the GPU is busy"}};
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::limited, "GPU 0", "not measured: the GPU is busy")));
  facts.agent = AgentReach::absent;
  facts.switch_latencies.emplace();
  EXPECT_THAT(diagnose(facts),
              Contains(finding(FindingLevel::limited, "clocks", "no agent responds", "sudo lowgear agent")));
  facts.switch_latencies.reset();
  EXPECT_THAT(diagnose(facts), Not(Contains(Field(&Finding::text, HasSubstr("switch latency")))));
}

TEST(Diagnosis, EndsWithWhatToRunNext) {
  MachineFacts facts = good_machine();
  EXPECT_THAT(next_step(facts, diagnose(facts)), HasSubstr("lowgear train"));
  facts.agent = AgentReach::absent;
  EXPECT_THAT(next_step(facts, diagnose(facts)), HasSubstr("lowgear monitor"));
  facts.nvml.reset();
  EXPECT_THAT(next_step(facts, diagnose(facts)), HasSubstr("lowgear doctor"));
}

TEST(Diagnosis, EveryStateOfTheAgentHasItsFix) {
  MachineFacts facts = good_machine();
  for (const AgentReach reach :
       {AgentReach::absent, AgentReach::not_socket, AgentReach::refused, AgentReach::forbidden, AgentReach::failed}) {
    facts.agent = reach;
    const std::vector<Finding> findings = diagnose(facts);
    EXPECT_THAT(findings, Contains(AllOf(finding(FindingLevel::limited, "agent", "/run/lowgear/lease.sock"),
                                         Field(&Finding::fix, Not("")))));
    EXPECT_TRUE(can_measure(findings)) << "measuring needs no agent";
  }
}

TEST(Diagnosis, NamesACpuCounterThatDoesNotTell) {
  MachineFacts facts = good_machine();
  facts.rapl_zones = {"package-0"};
  facts.rapl_problem = "dram/energy_uj: the counter shows no energy for 1.2 s";
  EXPECT_THAT(diagnose(facts), Contains(finding(FindingLevel::limited, "CPU energy", "package-0; not all: dram")));
}

TEST(Diagnosis, CpuEnergyAndKernelOnlyLimit) {
  MachineFacts facts = good_machine();
  facts.rapl_zones.clear();
  facts.rapl_problem = "energy_uj: only root may read it (since CVE-2020-8694)";
  facts.pidfd = false;
  facts.memory_lock_bytes = 65536;
  facts.container = "docker";
  const std::vector<Finding> findings = diagnose(facts);
  EXPECT_THAT(findings, Contains(finding(FindingLevel::limited, "CPU energy", "CVE-2020-8694", "run as root")));
  EXPECT_THAT(findings, Contains(finding(FindingLevel::limited, "kernel", "64 KiB may be locked", "Linux 5.3")));
  EXPECT_THAT(findings, Contains(finding(FindingLevel::works, "container", "docker")));
  EXPECT_TRUE(can_measure(findings));
}

}  // namespace
}  // namespace lowgear::operations::doctor
