#include "app/operations/doctor/sharing_check.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/core/environment.h"
#include "base/core/error.h"

namespace lowgear::operations::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kControlProgram = "nvidia-cuda-mps-control";
/// NVIDIA's default ("Multi-Process Service", section on environment variables).
constexpr const char* kDefaultPipeDirectory = "/tmp/nvidia-mps";

std::string program_in_path(const std::string& name) {
  std::istringstream folders(environment_text("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder) / name;
    std::error_code error;
    if (!folder.empty() && fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0) return file.string();
  }
  return "";
}

MpsDaemon mps_daemon(const fs::path& root, const fs::path& pipe_directory) {
  if (process_runs(root, kControlProgram)) return MpsDaemon::runs;
  std::error_code error;
  const bool control = fs::exists(root / (pipe_directory / "control").relative_path(), error);
  if (error == std::errc::permission_denied) return MpsDaemon::forbidden;
  return control ? MpsDaemon::not_seen : MpsDaemon::absent;
}

GreenContexts green_contexts(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return GreenContexts::no_library;
  // Only looked up: nothing of CUDA is initialised.
  const bool there = ::dlsym(handle, "cuGreenCtxCreate") != nullptr;
  ::dlclose(handle);
  return there ? GreenContexts::there : GreenContexts::missing;
}

}  // namespace

bool process_runs(const fs::path& root, const std::string& program) {
  std::error_code error;
  for (fs::directory_iterator entry(root / "proc", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string number = entry->path().filename().string();
    if (!std::ranges::all_of(number, [](char digit) { return digit >= '0' && digit <= '9'; })) continue;
    std::ifstream file(entry->path() / "cmdline");
    std::string words((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    words.resize(std::min(words.size(), words.find('\0')));
    if (fs::path(words).filename() == program) return true;
  }
  return false;
}

SharingFacts collect_sharing_facts(const fs::path& root, const std::string& library) {
  SharingFacts facts;
  facts.mps_program = program_in_path(kControlProgram);
  const std::string directory = environment_text("CUDA_MPS_PIPE_DIRECTORY");
  facts.mps_pipe_directory = directory.empty() ? kDefaultPipeDirectory : directory;
  facts.mps = mps_daemon(root, facts.mps_pipe_directory);
  facts.green_contexts = green_contexts(library);
  return facts;
}

namespace {

constexpr const char* kTopic = "sharing";

std::string set_mode(const gpu::GpuSurvey& gpu, std::string_view mode) {
  return fmt::format("sudo nvidia-smi -i {} -c {}", gpu.identity.pci_address, mode);
}

Finding mode_finding(const gpu::GpuSurvey& gpu) {
  const std::string topic = fmt::format("GPU {}", gpu.identity.index);
  const std::string_view mig = gpu.identity.mig_enabled ? "MIG mode on" : "MIG mode off";
  if (!gpu.compute_mode) return {FindingLevel::works, topic, fmt::format("compute mode not known, {}", mig), ""};
  const auto text = [&](std::string_view what) {
    return fmt::format("compute mode {}, {}: {}", name(*gpu.compute_mode), mig, what);
  };
  switch (*gpu.compute_mode) {
    case gpu::ComputeMode::shared:
      if (gpu.identity.mig_enabled) {
        return {FindingLevel::works, topic, text("jobs get instances of this GPU, not the whole GPU"),
                "nvidia-smi -L lists the instances; lowgear pack plans for whole GPUs"};
      }
      return {FindingLevel::works, topic, text("several jobs may use it"),
              "lowgear pack jobs.csv --gpu NAME, to find jobs that can share it"};
    case gpu::ComputeMode::exclusive_thread:
    case gpu::ComputeMode::exclusive_process:
      return {FindingLevel::works, topic, text("one process at a time, or several by MPS"),
              "share it by MPS (nvidia-cuda-mps-control -d), or " + set_mode(gpu, "DEFAULT")};
    case gpu::ComputeMode::prohibited:
      break;
  }
  return {FindingLevel::limited, topic, text("no process may use it"), set_mode(gpu, "DEFAULT")};
}

Finding mps_finding(const SharingFacts& facts) {
  const std::string directory = printable(facts.mps_pipe_directory);
  switch (facts.mps) {
    case MpsDaemon::runs:
      return {FindingLevel::works, kTopic,
              fmt::format("MPS: its daemon runs; processes with CUDA_MPS_PIPE_DIRECTORY={} ask it first", directory),
              "end it with: echo quit | nvidia-cuda-mps-control"};
    case MpsDaemon::not_seen:
      return {
          FindingLevel::limited, kTopic,
          fmt::format("MPS: {}/control exists, but no daemon is visible: it has ended, or runs outside this container",
                      directory),
          "if it has ended, start it again: nvidia-cuda-mps-control -d"};
    case MpsDaemon::forbidden:
      return {FindingLevel::limited, kTopic, fmt::format("MPS: this user may not look into {}", directory),
              "set CUDA_MPS_PIPE_DIRECTORY to the directory of this user's daemon"};
    case MpsDaemon::absent:
      break;
  }
  if (facts.mps_program.empty()) {
    return {FindingLevel::works, kTopic,
            "MPS: nvidia-cuda-mps-control is not in PATH, jobs can share by time slicing only",
            "it comes with NVIDIA's driver (Debian: nvidia-cuda-mps)"};
  }
  return {FindingLevel::works, kTopic,
          fmt::format("MPS: {} is installed, but its daemon does not run", printable(facts.mps_program)),
          fmt::format("start it with: CUDA_MPS_PIPE_DIRECTORY={} nvidia-cuda-mps-control -d", directory)};
}

Finding green_context_finding(const SharingFacts& facts) {
  switch (facts.green_contexts) {
    case GreenContexts::there:
      return {FindingLevel::works, kTopic,
              "green contexts: the driver has them; a process can divide its SMs by cuGreenCtxCreate", ""};
    case GreenContexts::missing:
      return {FindingLevel::works, kTopic, "green contexts: this driver has no cuGreenCtxCreate",
              "use driver 550 or newer, if a job needs them"};
    case GreenContexts::no_library:
      break;
  }
  return {FindingLevel::works, kTopic, "green contexts: not known, libcuda.so.1 cannot be loaded",
          "install CUDA's driver library, if a job needs them (Debian: libcuda1)"};
}

}  // namespace

std::vector<Finding> diagnose_sharing(const SharingFacts& facts, const gpu::NvmlSurvey& nvml) {
  std::vector<Finding> findings;
  for (const gpu::GpuSurvey& gpu : nvml.gpus) findings.push_back(mode_finding(gpu));
  if (nvml.gpus.empty()) return findings;
  findings.push_back(mps_finding(facts));
  findings.push_back(green_context_finding(facts));
  return findings;
}

}  // namespace lowgear::operations::doctor
