#include "app/operations/doctor/diagnosis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/power/power_model.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::operations::doctor {
namespace {

const gpu::GpuFeatureStatus& status_of(const gpu::GpuSurvey& gpu, gpu::GpuFeature feature) {
  return gpu.features[static_cast<std::size_t>(feature)];
}

std::string topic_of(const gpu::GpuSurvey& gpu) { return fmt::format("GPU {}", gpu.identity.index); }

/// What is missing for the simulated GPUs that the environment names in part, or the first step to such GPUs.
std::string simulation_fix(const MachineFacts& facts) {
  const std::string library =
      facts.simulated_nvml.empty() ? "its libnvidia-ml.so.1 (package lowgear-simgpu)" : facts.simulated_nvml;
  if (!facts.simulated_machine.empty() && facts.nvml_override.empty()) {
    return fmt::format("LOWGEAR_SIMGPU is set, and the simulation's NVML is not used: export LOWGEAR_NVML={}", library);
  }
  return "no NVIDIA GPU is on the PCI bus: use a machine with one, or simulated GPUs: lowgear simgpu create --state "
         "/dev/shm/simgpu --any-user, then the two export lines that it prints";
}

Finding driver_finding(const MachineFacts& facts) {
  if (!facts.nvml) {
    return {FindingLevel::broken, "driver", facts.nvml_problem, driver_fix(facts)};
  }
  const gpu::NvmlSurvey& nvml = *facts.nvml;
  const std::string version = nvml.driver_version.empty() ? "of unknown version" : nvml.driver_version;
  if (nvml.simulated) {
    return {FindingLevel::works, "driver",
            fmt::format("SIMULATED GPUs: {}, as driver {}; measurements here are not valid for real GPUs",
                        nvml.library_path, version),
            ""};
  }
  return {FindingLevel::works, "driver", fmt::format("NVIDIA driver {}, by {}", version, nvml.library_path), ""};
}

std::string summary(const gpu::GpuSurvey& gpu) {
  std::string text = fmt::format("{}, {}, PCI {}", gpu.identity.name, gpu.identity.uuid, gpu.identity.pci_address);
  if (const std::vector<int>& clocks = gpu.supported_sm_clocks_mhz; !clocks.empty()) {
    text += fmt::format(", {} SM clocks from {} to {} MHz", clocks.size(), clocks.back(), clocks.front());
  }
  if (gpu.power_limits) {
    const gpu::PowerLimits& limits = *gpu.power_limits;
    text += fmt::format(", power limit {:.0f} W ({:.0f} to {:.0f} W)", limits.enforced_w, limits.min_w, limits.max_w);
  }
  return text;
}

/// A simulated counter goes wrong by an injected fault, or because a busy CPU lets the simulation fall behind.
std::string counter_fix(const gpu::GpuSurvey& gpu, bool simulated) {
  const int index = gpu.identity.index;
  if (simulated) {
    return fmt::format(
        "lowgear simgpu reset --gpu {} ends faults that were injected; where there are none, the CPU is "
        "too busy for the simulation: run lowgear doctor again when less runs here",
        index);
  }
  return fmt::format(
      "reset it while nothing runs on it (sudo nvidia-smi --gpu-reset -i {}); if that does not help, the "
      "driver or the GPU is at fault",
      index);
}

Finding energy_finding(const gpu::GpuSurvey& gpu, const MachineFacts& facts) {
  const gpu::GpuFeatureStatus& counter = status_of(gpu, gpu::GpuFeature::energy_counter);
  const bool power =
      status_of(gpu, gpu::GpuFeature::average_power).works || status_of(gpu, gpu::GpuFeature::instant_power).works;
  const auto wrong = facts.wrong_counters.find(gpu.identity.uuid);
  if (counter.works && wrong != facts.wrong_counters.end()) {
    return {FindingLevel::limited, topic_of(gpu),
            fmt::format("energy by integrating power, less exact than a counter that is right: {}", wrong->second),
            counter_fix(gpu, facts.nvml->simulated)};
  }
  if (counter.works) return {FindingLevel::works, topic_of(gpu), "energy by the GPU's own counter", ""};
  if (power) {
    return {FindingLevel::limited, topic_of(gpu),
            fmt::format("energy by integrating power, less exact than a counter: {}", counter.reason),
            "use a driver that supports it; GPUs have the counter since Volta"};
  }
  return {FindingLevel::broken, topic_of(gpu), fmt::format("neither energy nor power can be read: {}", counter.reason),
          "measure on a GPU of Volta or newer, outside a virtual GPU"};
}

/// What no plan needs and many GPUs lack.
bool is_extra(gpu::GpuFeature feature) {
  return feature == gpu::GpuFeature::workload_power_profiles || feature == gpu::GpuFeature::power_smoothing;
}

/// Power settings of the vendor, which act below clocks and so change what a profile has measured.
void add_power_features(const gpu::GpuSurvey& gpu, std::vector<Finding>& findings) {
  if (const auto& profiles = gpu.workload_power_profiles) {
    findings.push_back({FindingLevel::works, topic_of(gpu),
                        fmt::format("workload power profiles {}; enforced: {}", gpu::to_string(profiles->supported),
                                    gpu::to_string(profiles->enforced)),
                        ""});
  }
  if (const auto& smoothing = gpu.power_smoothing) {
    findings.push_back({FindingLevel::works, topic_of(gpu),
                        fmt::format("power smoothing, which is {}", smoothing->enabled ? "on" : "off"), ""});
  }
}

/// Features besides energy that do not work.
void add_missing_features(const gpu::GpuSurvey& gpu, std::vector<Finding>& findings) {
  for (int index = 0; index < gpu::kGpuFeatureCount; ++index) {
    const auto feature = static_cast<gpu::GpuFeature>(index);
    const gpu::GpuFeatureStatus& status = status_of(gpu, feature);
    if (status.works || feature == gpu::GpuFeature::energy_counter || is_extra(feature)) continue;
    findings.push_back(
        {FindingLevel::limited, topic_of(gpu), fmt::format("no {}: {}", name(feature), status.reason), ""});
  }
}

/// Of matrix products, by the estimator's power model; empty for a GPU that it does not know.
std::string slowdown_text(const std::string& gpu_name, double limit_w) {
  const std::optional<std::string_view> known = estimator::gpu_of_name(gpu_name);
  if (!known) return "";
  const estimator::GpuModel model = estimator::named_gpu(*known);
  const estimator::WorkEnergy products(model, {.core_s = 1});
  const double factor = products.sustained_clock_mhz() / products.sustained_clock_mhz(limit_w);
  return fmt::format(": matrix products take some {:.0f} % longer (estimated)", 100 * (factor - 1));
}

/// A limit that an operator lowered and forgot makes every job slower without a word.
void add_lowered_limit(const gpu::GpuSurvey& gpu, std::vector<Finding>& findings) {
  constexpr double kRoundingW = 1;
  if (!gpu.power_limits || gpu.power_limits->enforced_w >= gpu.power_limits->default_w - kRoundingW) return;
  const gpu::PowerLimits& limits = *gpu.power_limits;
  findings.push_back({FindingLevel::limited, topic_of(gpu),
                      fmt::format("power limit of {:.0f} W, not its usual {:.0f} W{}", limits.enforced_w,
                                  limits.default_w, slowdown_text(gpu.identity.name, limits.enforced_w)),
                      fmt::format("if it is not meant: sudo nvidia-smi -i {} -pl {:.0f}", gpu.identity.pci_address,
                                  limits.default_w)});
}

void add_gpu(const gpu::GpuSurvey& gpu, const MachineFacts& facts, std::vector<Finding>& findings) {
  findings.push_back({FindingLevel::works, topic_of(gpu), summary(gpu), ""});
  findings.push_back(energy_finding(gpu, facts));
  add_missing_features(gpu, findings);
  add_power_features(gpu, findings);
  add_lowered_limit(gpu, findings);
  if (gpu.identity.mig_enabled) {
    findings.push_back({FindingLevel::limited, topic_of(gpu),
                        "in MIG mode: energy and clocks are those of all its instances together, not of one job",
                        fmt::format("sudo nvidia-smi -i {} -mig 0 while nothing runs on it, to use the whole GPU",
                                    gpu.identity.pci_address)});
  }
  if (gpu.identity.counts_whole_module) {
    findings.push_back({FindingLevel::limited, topic_of(gpu),
                        "the energy counter of a GH200 covers the whole module, Grace CPU and its memory too", ""});
  }
  if (gpu.persistence_mode == false) {
    findings.push_back({FindingLevel::limited, topic_of(gpu),
                        "persistence mode is off: the driver forgets its settings when nothing uses the GPU",
                        fmt::format("sudo nvidia-smi -i {} -pm 1", gpu.identity.pci_address)});
  }
}

void add_gpus(const MachineFacts& facts, std::vector<Finding>& findings) {
  const gpu::NvmlSurvey& nvml = *facts.nvml;
  for (const gpu::GpuSurvey& gpu : nvml.gpus) add_gpu(gpu, facts, findings);
  for (const std::string& problem : nvml.problems) {
    findings.push_back(
        {FindingLevel::broken, "GPU", problem,
         "sudo dmesg | grep -i xid says what happened to it; a restart of the machine may bring it back"});
  }
  if (nvml.gpus.empty() && nvml.problems.empty()) {
    findings.push_back({FindingLevel::broken, "GPU", "the driver shows no GPU",
                        "check `nvidia-smi -L`, and in a container which GPUs it may use"});
  }
}

AgentProblem agent_problem(const MachineFacts& facts) {
  const bool simulated = !facts.simulated_machine.empty();
  return problem_of(facts.agent, facts.agent_socket, simulated ? AgentGpus::simulated : AgentGpus::real);
}

Finding agent_finding(const MachineFacts& facts) {
  if (facts.agent == AgentReach::answers) {
    return {FindingLevel::works, "agent", fmt::format("answers at {}", facts.agent_socket), ""};
  }
  const AgentProblem problem = agent_problem(facts);
  return {FindingLevel::limited, "agent", fmt::format("does not answer: {}", problem.what), problem.next_step};
}

/// Who may set clocks. Only looked up: nothing has been set to find out.
Finding permission_finding(const MachineFacts& facts) {
  if (facts.agent == AgentReach::answers) {
    return {FindingLevel::works, "clocks", "set by the agent; training needs no rights of its own", ""};
  }
  if (facts.simulated_machine.empty() && (facts.root || facts.cap_sys_admin)) {
    return {FindingLevel::works, "clocks",
            "this user may run the agent, which sets them (root or CAP_SYS_ADMIN; not tested)", ""};
  }
  return {FindingLevel::limited, "clocks", "set by an agent, and none answers: programs may only measure",
          agent_problem(facts).next_step};
}

/// How late clock changes take effect on one GPU.
Finding latency_finding(const GpuSwitchLatency& measured, const std::string& topic) {
  if (!measured.latency) {
    return {FindingLevel::limited, topic, fmt::format("switch latency not measured: {}", measured.problem), ""};
  }
  return {FindingLevel::works, topic, describe(*measured.latency), ""};
}

/// Only where clocks can be set: elsewhere permission_finding says what is missing.
void add_switch_latencies(const MachineFacts& facts, std::vector<Finding>& findings) {
  if (!facts.switch_latencies) {
    if (facts.agent != AgentReach::answers) return;
    findings.push_back({FindingLevel::works, "clocks",
                        "switch latency not measured: doctor changes clocks only on request",
                        "lowgear doctor --measure-switch-latency, while the GPUs are idle; or lowgear profile, from a "
                        "recording of training"});
    return;
  }
  if (facts.agent != AgentReach::answers) {
    findings.push_back({FindingLevel::limited, "clocks",
                        "switch latency not measured: no agent responds that may set clocks",
                        agent_problem(facts).next_step});
    return;
  }
  double largest_s = 0;  // a plan has one latency for all of its GPUs
  std::size_t slowest = 0;
  for (std::size_t i = 0; i < facts.switch_latencies->size(); ++i) {
    const GpuSwitchLatency& measured = (*facts.switch_latencies)[i];
    findings.push_back(latency_finding(measured, topic_of(facts.nvml->gpus.at(i))));
    if (!measured.latency || measured.latency->latency_s <= largest_s) continue;
    largest_s = measured.latency->latency_s;
    slowest = findings.size() - 1;
  }
  if (!(largest_s > 0)) return;
  findings[slowest].fix = fmt::format(
      "plan with the largest if the profile does not contain its own: lowgear plan --switch-latency {:.1f} ...",
      largest_s * 1e3);
}

Finding cpu_finding(const MachineFacts& facts) {
  if (!facts.rapl_zones.empty()) {
    const std::string zones = fmt::format("by RAPL: {}", fmt::join(facts.rapl_zones, ", "));
    if (facts.rapl_problem.empty()) return {FindingLevel::works, "CPU energy", zones, ""};
    return {FindingLevel::limited, "CPU energy", fmt::format("{}; not all: {}", zones, facts.rapl_problem), ""};
  }
  const bool denied = facts.rapl_problem.find("only root") != std::string::npos;
  return {FindingLevel::limited, "CPU energy", facts.rapl_problem,
          denied ? "run as root, or let the agent read it; access is restricted because of side channels, do not grant "
                   "it on shared machines"
                 : ""};
}

void add_kernel(const MachineFacts& facts, std::vector<Finding>& findings) {
  const bool complete = facts.pidfd && facts.sealed_memory;
  const std::string lock = facts.memory_lock_bytes
                               ? fmt::format("{} KiB may be locked", *facts.memory_lock_bytes / 1024)
                               : "memory may be locked without limit";
  findings.push_back(
      {complete ? FindingLevel::works : FindingLevel::limited, "kernel",
       fmt::format("Linux {}: process descriptors {}, sealed memory {}, {}", facts.kernel_release,
                   facts.pidfd ? "work" : "do not work", facts.sealed_memory ? "works" : "does not work", lock),
       complete ? ""
                : "the agent needs Linux 5.3 or newer, and a seccomp filter that lets pidfd_open and "
                  "memfd_create pass"});
  if (!facts.container.empty()) {
    findings.push_back(
        {FindingLevel::works, "container",
         fmt::format("inside one ({}): run the agent on the host, and mount its socket here", facts.container), ""});
  }
}

/// Root needs none.
void drop_sudo(std::string& text) {
  constexpr std::string_view kSudo = "sudo ";
  for (std::size_t at = text.find(kSudo); at != std::string::npos; at = text.find(kSudo, at))
    text.erase(at, kSudo.size());
}

}  // namespace

std::string_view name(FindingLevel level) {
  switch (level) {
    case FindingLevel::works:
      return "works";
    case FindingLevel::limited:
      return "limited";
    case FindingLevel::broken:
      break;
  }
  return "broken";
}

std::string driver_fix(const MachineFacts& facts) {
  if (!facts.nvml_override.empty()) {
    const bool is_simulation = facts.nvml_override == facts.simulated_nvml;
    if (is_simulation && facts.simulated_machine.empty()) {
      return "LOWGEAR_NVML is the simulation's, and LOWGEAR_SIMGPU is not set: export LOWGEAR_SIMGPU=FILE, a machine "
             "of "
             "lowgear simgpu create --state FILE";
    }
    return "LOWGEAR_NVML is set: unset it for the system's library, or name a library that exists";
  }
  const bool gpu_here = facts.nvidia_pci_gpus > 0 || !facts.kernel_module_version.empty();
  if (!gpu_here) return simulation_fix(facts);
  if (facts.container == "kubernetes") return "ask for GPUs in the pod: resources.limits: nvidia.com/gpu: 1";
  if (!facts.container.empty()) {
    return fmt::format("start the container with its GPUs (NVIDIA Container Toolkit): {} run --gpus all ...",
                       facts.container == "podman" ? "podman" : "docker");
  }
  if (facts.kernel_module_version.empty()) {
    return "the nvidia kernel module is not loaded: sudo modprobe nvidia, or install NVIDIA's driver for this kernel";
  }
  if (!facts.device_nodes) return "/dev/nvidiactl is missing: sudo nvidia-modprobe -c 0 -u";
  return fmt::format(
      "the nvidia kernel module {} is loaded, its NVML library does not work: install the library of that "
      "version (Debian: libnvidia-ml1)",
      facts.kernel_module_version);
}

std::vector<Finding> diagnose(const MachineFacts& facts) {
  std::vector<Finding> findings = {driver_finding(facts)};
  if (facts.nvml) {
    add_gpus(facts, findings);
    findings.push_back(permission_finding(facts));
    add_switch_latencies(facts, findings);
  }
  findings.push_back(agent_finding(facts));
  findings.push_back(cpu_finding(facts));
  add_kernel(facts, findings);
  if (facts.root) {
    for (Finding& finding : findings) drop_sudo(finding.fix);
  }
  return findings;
}

bool can_measure(const std::vector<Finding>& findings) {
  return std::ranges::none_of(findings, [](const Finding& finding) { return finding.level == FindingLevel::broken; });
}

std::string next_step(const MachineFacts& facts, const std::vector<Finding>& findings) {
  if (!can_measure(findings)) return "Next: follow the steps after -> in BROKEN lines, then run: lowgear doctor\n";
  if (facts.agent == AgentReach::answers) {
    return "Next: train with clocks that follow a plan: lowgear train CONFIG --server ADDRESS (lowgear serve) or "
           "--plan FILE (lowgear plan); lowgear run --server ADDRESS -- COMMAND for a job of your own\n";
  }
  if (!facts.simulated_machine.empty()) {
    return "Next: start an agent for the simulated GPUs, as after -> in the line clocks; then run: lowgear doctor\n";
  }
  return "Next: measure the energy of a command: lowgear monitor -- COMMAND\n";
}

}  // namespace lowgear::operations::doctor
