#include "app/operations/runs/simulated_node.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "app/cli/terminal/interrupt.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/ipc/unix_socket.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::operations {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAgentPatience{60};
constexpr std::chrono::milliseconds kAgentPoll{20};

fs::path this_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

fs::path make_folder() {
  std::string name = (fs::temp_directory_path() / "lowgear-node-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw Error(fmt::format("{}: cannot be made", name));
  return name;
}

bool accepts_connections(const fs::path& path) {
  const ipc::UnixAddress address = ipc::UnixAddress::of_path(path);
  const FileDescriptor connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connection && ::connect(connection.get(), address.get(), address.size()) == 0;
}

std::string agent_config(const fs::path& folder) {
  return fmt::format(
      "journal = \"{0}/journal\"\n[sockets]\nlease_socket = \"{0}/lease.sock\"\nhttp_socket = \"{0}/agent.sock\"\n"
      "[[gpu]]\nid = \"all\"\n[[allow]]\neverybody = true\n",
      folder.string());
}

}  // namespace

fs::path simulated_nvml() {
  if (const char* named = std::getenv("LOWGEAR_NVML"); named != nullptr && *named != '\0') return named;
  const fs::path program = this_program().parent_path();
  for (const fs::path& folder : {program / "../simgpu", program / ".." / LOWGEAR_SIMGPU_FOLDER}) {
    const fs::path library = folder / "libnvidia-ml.so.1";
    std::error_code error;
    if (fs::exists(library, error)) return fs::canonical(library, error);
  }
  throw InputError(
      "simulated_gpus: the simulation's libnvidia-ml.so.1 is not installed; install the package lowgear-simgpu, or set "
      "LOWGEAR_NVML to it");
}

SimulatedNode::SimulatedNode(const std::string& gpus, const fs::path& log) : log_(log) {
  const std::vector<simgpu::SimulatedGpuModel> models = simgpu::gpu_models_from_text(gpus);
  const fs::path library = simulated_nvml();
  folder_ = make_folder();
  try {
    const fs::path state = folder_ / "machine";
    machine_ = simgpu::SimulatedMachine::create(
        state, {.gpus = models, .clock = simgpu::SimulatedClock::real, .seed = 1, .root_required = false});
    environment_ = {{"LOWGEAR_NVML", library.string()},
                    {"LOWGEAR_SIMGPU", state.string()},
                    {"LOWGEAR_AGENT_SOCKET", (folder_ / "lease.sock").string()}};
    const fs::path config = folder_ / "agent.toml";
    write_file_atomically(config, agent_config(folder_));
    fs::permissions(config, fs::perms::owner_read | fs::perms::owner_write);
    agent_ = std::make_unique<ChildProcess>(ChildCommand{.program = this_program(),
                                                         .arguments = {"agent", "--config", config.string()},
                                                         .environment = environment_,
                                                         .output = log_});
    wait_for_agent();
  } catch (...) {
    agent_.reset();
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    throw;
  }
}

SimulatedNode::~SimulatedNode() {
  agent_.reset();
  machine_.reset();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void SimulatedNode::wait_for_agent() {
  const std::string socket = environment_.at("LOWGEAR_AGENT_SOCKET");
  for (const auto end = std::chrono::steady_clock::now() + kAgentPatience; std::chrono::steady_clock::now() < end;) {
    cli::throw_if_interrupted();
    if (agent_->status()) break;
    if (accepts_connections(socket)) return;
    std::this_thread::sleep_for(kAgentPoll);
  }
  throw Error(fmt::format("the agent of the simulated GPUs did not start; see {}", log_.string()));
}

}  // namespace lowgear::operations
