// The program lowgear-simgpu-mps-control: stands in for NVIDIA's nvidia-cuda-mps-control on a simulated machine. It has
// the options, variables and commands that Lowgear's agent uses, and while it runs, kernels of the GPUs that
// CUDA_VISIBLE_DEVICES names run concurrently. It starts no servers, limits no SMs, and is for tests and simulations.

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "hardware/simgpu/mps/control_socket.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::simgpu {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets the environment
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::filesystem::path pipe_directory() { return variable("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"); }

/// GPUs whose kernels run concurrently for as long as this lives.
class ConcurrentGpus {
 public:
  ConcurrentGpus() : machine_(SimulatedMachine::open(SimulatedMachine::path_from_environment())) {
    std::istringstream names(variable("CUDA_VISIBLE_DEVICES", ""));
    for (std::string name; std::getline(names, name, ',');) gpus_.push_back(&find(name));
    for (SimulatedGpu* const gpu : gpus_) gpu->share_kernels(KernelSharing::concurrent);
  }
  ~ConcurrentGpus() {
    try {
      for (SimulatedGpu* const gpu : gpus_) gpu->share_kernels(KernelSharing::time_slicing);
    } catch (const Error&) {  // the machine is gone
    }
  }
  ConcurrentGpus(const ConcurrentGpus&) = delete;
  ConcurrentGpus& operator=(const ConcurrentGpus&) = delete;

  /// Whether a process has a context on one of them.
  [[nodiscard]] bool have_clients() {
    for (SimulatedGpu* const gpu : gpus_) {
      if (!gpu->context_pids().empty()) return true;
    }
    return false;
  }

 private:
  SimulatedGpu& find(const std::string& uuid) {
    for (int i = 0; i < machine_->gpus(); ++i) {
      if (machine_->gpu(i).uuid() == uuid) return machine_->gpu(i);
    }
    throw InputError(fmt::format("CUDA_VISIBLE_DEVICES: no simulated GPU {}", quote(uuid)));
  }

  std::unique_ptr<SimulatedMachine> machine_;
  std::vector<SimulatedGpu*> gpus_;
};

std::atomic<bool> over{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// `quit`, or `quit -t SECONDS`: waits so long for clients to end.
void wait_for_clients(ConcurrentGpus& gpus, std::string_view command) {
  constexpr std::string_view kTimeout = "quit -t ";
  constexpr std::chrono::milliseconds kLook{20};
  std::optional<long long> most_s;
  if (command.starts_with(kTimeout)) most_s = parse_integer(command.substr(kTimeout.size()));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(most_s.value_or(0));
  while (!over && gpus.have_clients() && (!most_s || std::chrono::steady_clock::now() < end)) {
    std::this_thread::sleep_for(kLook);
  }
}

int serve() {
  std::signal(SIGTERM, [](int) { over = true; });
  std::signal(SIGINT, [](int) { over = true; });
  ControlSocket socket(pipe_directory());
  ConcurrentGpus gpus;
  socket.serve(
      [&gpus](std::string_view command) -> std::string {
        if (command == "get_server_list") return "";
        if (command == "get_default_active_thread_percentage") return "100.0";
        if (!command.starts_with("quit")) return fmt::format("Unrecognized command: {}", printable(command));
        wait_for_clients(gpus, command);
        over = true;
        return "";
      },
      over);
  return EXIT_SUCCESS;
}

/// Passes the lines of standard input on.
int ask() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::string response = ask_control_socket(pipe_directory(), line);
    if (!response.empty()) std::cout << response << "\n";
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace lowgear::simgpu

int main(int count, char** words) {
  const std::vector<std::string_view> arguments(words + 1, words + count);
  try {
    if (arguments.empty()) return lowgear::simgpu::ask();
    if (arguments == std::vector<std::string_view>{"-f"}) return lowgear::simgpu::serve();
    std::cerr << "lowgear-simgpu-mps-control: simulated; takes -f, or commands from standard input\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return EXIT_FAILURE;
}
