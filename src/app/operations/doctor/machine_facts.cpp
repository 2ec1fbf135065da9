#include "app/operations/doctor/machine_facts.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/environment.h"
#include "base/core/monotonic_clock.h"
#include "hardware/gpu/nvml_survey.h"
#include "hardware/gpu/rapl.h"
#include "hardware/measure/energy_meter.h"

namespace lowgear::operations::doctor {
namespace {

namespace fs = std::filesystem;

constexpr int kCapSysAdmin = 21;
/// Ten steps of an H100's counter.
constexpr std::chrono::milliseconds kWatched{1'200};

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// GPUs on the PCI bus, whether or not a driver has taken them: class 0x03 (display), vendor 0x10de.
int count_nvidia_gpus(const fs::path& root) {
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator entry(root / "sys/bus/pci/devices", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const bool nvidia = first_line(entry->path() / "vendor") == "0x10de";
    if (nvidia && first_line(entry->path() / "class").starts_with("0x03")) ++count;
  }
  return count;
}

bool has_capability(const fs::path& root, int capability) {
  constexpr std::string_view kPrefix = "CapEff:\t";
  std::ifstream status(root / "proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kPrefix)) continue;
    std::uint64_t bits = 0;
    std::from_chars(line.data() + kPrefix.size(), line.data() + line.size(), bits, 16);
    return ((bits >> capability) & 1U) != 0;
  }
  return false;
}

/// A descriptor that was opened only to see whether that works.
bool worked(long descriptor) {
  if (descriptor < 0) return false;
  ::close(static_cast<int>(descriptor));
  return true;
}

void collect_nvml(MachineFacts& facts) {
  try {
    facts.nvml = gpu::survey_nvml();
  } catch (const gpu::GpuError& error) {
    facts.nvml_problem = error.what();
    facts.nvml_code = error.code();
  }
}

void collect_kernel(MachineFacts& facts) {
  utsname names{};
  if (::uname(&names) == 0) facts.kernel_release = names.release;
  facts.pidfd = worked(::syscall(SYS_pidfd_open, ::getpid(), 0));
  facts.sealed_memory = worked(::memfd_create("lowgear-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.memory_lock_bytes = limit.rlim_cur;
  }
}

/// Watches the energy counters of GPUs next to their power readings.
void watch_counters(MachineFacts& facts) {
  try {
    const std::unique_ptr<gpu::GpuSystem> system = gpu::open_nvml();
    measure::EnergyMeter meter(*system);
    const measure::EnergyMeter::WindowId window = meter.begin("doctor");
    std::this_thread::sleep_for(kWatched);
    for (const measure::GpuMeasurement& gpu : meter.end(window).gpus) {
      const bool by_counter = gpu.source == measure::EnergySource::counter;
      if (!by_counter && !gpu.problem.empty()) facts.wrong_counters[gpu.identity.uuid] = gpu.problem;
    }
  } catch (const gpu::GpuError&) {
    // The survey says why.
  }
}

void collect_energy(MachineFacts& facts, const fs::path& root) {
  gpu::Rapl rapl(root / "sys/class/powercap", monotonic_s);
  if (facts.nvml && !facts.nvml->gpus.empty()) {
    watch_counters(facts);
  } else if (rapl.problem().empty()) {
    std::this_thread::sleep_for(kWatched);
  }
  facts.rapl_problem = rapl.problem();
  for (const gpu::RaplReading& reading : rapl.read()) {
    if (reading.problem.empty()) {
      facts.rapl_zones.push_back(reading.zone);
    } else if (facts.rapl_problem.empty()) {
      facts.rapl_problem = reading.problem;
    }
  }
}

}  // namespace

std::string container_kind(const fs::path& root) {
  if (is_there(root / "run/secrets/kubernetes.io")) return "kubernetes";
  if (is_there(root / ".dockerenv")) return "docker";
  if (is_there(root / "run/.containerenv")) return "podman";
  // systemd's convention for containers (https://systemd.io/CONTAINER_INTERFACE).
  std::string kind = first_line(root / "run/systemd/container");
  if (!kind.empty()) return kind;
  static constexpr auto kMarks = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"kubepods", "kubernetes"}, {"docker", "docker"}, {"libpod", "podman"}, {"lxc", "lxc"}});
  std::ifstream file(root / "proc/1/cgroup");
  const std::string groups((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const auto& [mark, name] : kMarks) {
    if (groups.find(mark) != std::string::npos) return std::string(name);
  }
  return "";
}

fs::path simulated_nvml_of_program() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> folders = {program / "../simgpu", program / ".." / LOWGEAR_SIMGPU_FOLDER};
  // Of an installed wheel.
  for (const fs::directory_entry& entry : fs::directory_iterator(program / "../lib", error)) {
    if (!entry.path().filename().native().starts_with("python3")) continue;
    folders.push_back(entry.path() / "site-packages/lowgear/simgpu");
  }
  for (const fs::path& folder : folders) {
    const fs::path library = folder / "libnvidia-ml.so.1";
    if (fs::exists(library, error)) return fs::canonical(library, error);
  }
  return {};
}

MachineFacts collect_machine_facts(const fs::path& root) {
  MachineFacts facts;
  facts.nvml_override = environment_text("LOWGEAR_NVML");
  facts.simulated_machine = environment_text("LOWGEAR_SIMGPU");
  facts.simulated_nvml = simulated_nvml_of_program().string();
  collect_nvml(facts);
  facts.nvidia_pci_gpus = count_nvidia_gpus(root);
  facts.kernel_module_version = first_line(root / "sys/module/nvidia/version");
  facts.device_nodes = is_there(root / "dev/nvidiactl");
  facts.root = ::geteuid() == 0;
  facts.cap_sys_admin = has_capability(root, kCapSysAdmin);
  facts.container = container_kind(root);
  collect_energy(facts, root);
  facts.agent_socket = agent_socket(process_environment());
  facts.agent = reach_agent(facts.agent_socket);
  collect_kernel(facts);
  return facts;
}

}  // namespace lowgear::operations::doctor
