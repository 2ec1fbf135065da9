// The program lowgear-simgpu-mps-control: stands in for NVIDIA's nvidia-cuda-mps-control on a simulated machine. It has
// the options, variables and commands that Lowgear's agent uses, and while it runs, kernels of the GPUs that
// CUDA_VISIBLE_DEVICES names run concurrently. It starts no servers, limits no SMs, and is for tests and simulations.

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/numbers/number.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::simgpu {

/// The socket `control` in a pipe directory, through which the stand-in for NVIDIA's MPS control daemon is asked: one
/// line is one command.
class ControlSocket {
 public:
  /// Listens. Throws InputError when the folder cannot be written to, or another daemon listens there.
  explicit ControlSocket(const std::filesystem::path& pipe_directory);
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  /// Passes each command to `respond` and returns its responses, until `over` is set, which is looked at some 20 times
  /// a second.
  void serve(const std::function<std::string(std::string_view command)>& respond, const std::atomic<bool>& over);

 private:
  std::filesystem::path path_;
  FileDescriptor socket_;
};

/// The response to one command. Throws Error when no daemon listens in this directory.
[[nodiscard]] std::string ask_control_socket(const std::filesystem::path& pipe_directory, std::string_view command);

namespace {

/// Throws InputError for a path that is too long for a socket.
sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.size() >= sizeof(address.sun_path)) {
    throw InputError(fmt::format("{}: is too long for a socket", printable(text)));
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

FileDescriptor make_socket() {
  FileDescriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made) throw Error(fmt::format("no socket: {}", ::strerrordesc_np(errno)));
  return made;
}

/// Empty where no process listens.
FileDescriptor connect_to(const std::filesystem::path& path) {
  const sockaddr_un address = address_of(path);
  FileDescriptor connection = make_socket();
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the socket interface's own way
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return {};
  return connection;
}

/// What comes until the line ends or the connection does.
std::string receive_line(const FileDescriptor& connection) {
  constexpr std::size_t kMaxBytes = 4096;
  std::string text;
  std::array<char, 512> buffer{};
  while (text.size() < kMaxBytes && text.find('\n') == std::string::npos) {
    const ssize_t bytes = ::recv(connection.get(), buffer.data(), buffer.size(), 0);
    if (bytes <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
  return text.substr(0, text.find('\n'));
}

void send_line(const FileDescriptor& connection, std::string text) {
  text += '\n';
  (void)::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace

ControlSocket::ControlSocket(const std::filesystem::path& pipe_directory) : path_(pipe_directory / "control") {
  constexpr mode_t kForAll = 0666;  // as the real one: the directory decides who comes this far
  constexpr int kWaiting = 16;
  if (connect_to(path_)) throw InputError("An instance of this daemon is already running");
  ::unlink(path_.c_str());
  const sockaddr_un address = address_of(path_);
  socket_ = make_socket();
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the socket interface's own way
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket_.get(), kWaiting) != 0) {
    throw InputError(fmt::format("{}: cannot listen: {}", path_.string(), ::strerrordesc_np(errno)));
  }
  ::chmod(path_.c_str(), kForAll);
}

ControlSocket::~ControlSocket() { ::unlink(path_.c_str()); }

void ControlSocket::serve(const std::function<std::string(std::string_view command)>& respond,
                          const std::atomic<bool>& over) {
  constexpr int kLookMs = 50;
  while (!over) {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kLookMs) <= 0) continue;
    const FileDescriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) send_line(connection, respond(receive_line(connection)));
  }
}

std::string ask_control_socket(const std::filesystem::path& pipe_directory, std::string_view command) {
  const FileDescriptor connection = connect_to(pipe_directory / "control");
  if (!connection) throw Error("Cannot find MPS control daemon process");
  send_line(connection, std::string(command));
  return receive_line(connection);
}

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
