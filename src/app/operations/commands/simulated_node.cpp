#include "app/operations/commands/simulated_node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "app/cli/terminal/process.h"
#include "app/operations/doctor/machine_facts.h"
#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::operations {
namespace {

constexpr std::chrono::seconds kEndGrace{30};
constexpr std::chrono::milliseconds kEndPoll{20};
constexpr int kNotFound = 127;

/// Runs in the child: only calls that are safe after a fork.
[[noreturn]] void become(char* const* words, char* const* environment, int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kNotFound);
  ::setpgid(0, 0);
  std::signal(SIGPIPE, SIG_DFL);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execve(words[0], words, environment);
  ::_exit(kNotFound);
}

}  // namespace

ChildProcess::ChildProcess(const ChildCommand& command) {
  std::vector<std::string> words = command.arguments;
  words.insert(words.begin(), command.program.string());
  const ProgramWords arguments(std::move(words));
  const ProgramWords environment(environment_with(command.environment));
  const FileDescriptor output(::open(command.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!output) {
    throw InputError(fmt::format("{}: cannot be written: {}", command.output.string(), ::strerrordesc_np(errno)));
  }
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ < 0)
    throw Error(fmt::format("{}: cannot be started: {}", command.program.string(), ::strerrordesc_np(errno)));
  if (child_ == 0) become(arguments.get(), environment.get(), output.get(), parent);
}

ChildProcess::~ChildProcess() {
  if (status()) return;
  ::kill(child_, SIGTERM);
  for (const auto end = std::chrono::steady_clock::now() + kEndGrace; std::chrono::steady_clock::now() < end;) {
    if (status()) return;
    std::this_thread::sleep_for(kEndPoll);
  }
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

std::optional<int> ChildProcess::status() {
  if (status_) return status_;
  int status = 0;
  if (::waitpid(child_, &status, WNOHANG) != child_) return std::nullopt;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return status_;
}

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
      "journal: \"{0}/journal\"\nsockets: {{lease_socket: \"{0}/lease.sock\", http_socket: \"{0}/agent.sock\"}}\n"
      "gpu: [{{id: all}}]\nallow: [{{everybody: true}}]\n",
      folder.string());
}

}  // namespace

fs::path simulated_nvml() {
  if (const char* named = std::getenv("LOWGEAR_NVML"); named != nullptr && *named != '\0') return named;
  if (fs::path library = doctor::simulated_nvml_of_program(); !library.empty()) return library;
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
    const fs::path config = folder_ / "agent.yaml";
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
