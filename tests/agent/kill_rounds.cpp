#include "agent/kill_rounds.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <random>
#include <thread>

#include "agent/test_trainer.h"
#include "base/core/error.h"
#include "base/core/eventually.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/ipc/unix_socket.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::agent {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kGpus = 2;

/// Everything below the folder, every GPU for everybody.
std::string config_text(const std::filesystem::path& folder) {
  return fmt::format(
      "journal: \"{0}/journal\"\nsockets: {{lease_socket: \"{0}/lease.sock\", http_socket: \"{0}/agent.sock\"}}\n"
      "gpu: [{{id: all}}]\nallow: [{{everybody: true}}]\n",
      folder.string());
}

/// A child process that dies with its parent, and is waited for.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {
    if (pid < 0) throw Error("no process can be started");
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  [[nodiscard]] bool running() {
    if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
    return pid_ > 0;
  }

 private:
  pid_t pid_;
};

class Rounds {
 public:
  explicit Rounds(const KillRoundsOptions& options);
  KillRoundsResult run();

 private:
  void run_round(int round);
  void start_agent();
  void start_trainers();
  [[nodiscard]] bool gpu_changed(int gpu);
  [[nodiscard]] bool any_changed();
  [[nodiscard]] std::filesystem::path file(const char* name) const { return options_.folder / name; }
  void fail(int round, const std::string& what) {
    result_.failures.push_back(fmt::format("round {}: {}", round, what));
  }
  double random(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

  KillRoundsOptions options_;
  std::mt19937_64 random_;
  std::unique_ptr<simgpu::SimulatedMachine> machine_;
  std::unique_ptr<Child> agent_;
  std::vector<std::unique_ptr<Child>> trainers_;
  KillRoundsResult result_;
};

Rounds::Rounds(const KillRoundsOptions& options) : options_(options), random_(options.seed) {
  simgpu::SimulatedMachineConfig config;
  config.gpus = simgpu::gpu_models_from_text(fmt::format("{}xH100", kGpus));
  config.root_required = false;
  config.seed = options.seed;
  machine_ = simgpu::SimulatedMachine::create(file("machine"), config);
  write_file_atomically(file("agent.yaml"), config_text(options_.folder));
}

/// Starts the agent and waits until it serves: it says so as it would to systemd.
void Rounds::start_agent() {
  const std::string notify = file("notify").string();
  ::unlink(notify.c_str());
  const FileDescriptor ready(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const ipc::UnixAddress address = ipc::UnixAddress::of_path(notify);
  if (!ready || ::bind(ready.get(), address.get(), address.size()) != 0) {
    throw Error(notify + ": no socket can be made there");
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(99);
    const int log = ::open(file("agent.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::setenv("NOTIFY_SOCKET", notify.c_str(), 1);
    ::setenv("LOWGEAR_NVML", options_.nvml_library.c_str(), 1);
    ::setenv("LOWGEAR_SIMGPU", file("machine").c_str(), 1);
    ::execl(options_.agent_binary.c_str(), "lowgear", "agent", "--config", file("agent.yaml").c_str(),
            static_cast<char*>(nullptr));
    ::_exit(99);
  }
  agent_ = std::make_unique<Child>(pid);
  const auto deadline = Clock::now() + kPatience;
  while (Clock::now() < deadline && agent_->running()) {
    pollfd readable{.fd = ready.get(), .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, 50) == 0) continue;
    char text[256] = {};
    const ssize_t size = ::recv(ready.get(), text, sizeof(text) - 1, MSG_DONTWAIT);
    if (size > 0 && std::string_view(text, static_cast<std::size_t>(size)).starts_with("READY=1")) return;
  }
  ++result_.journal_failures;
  agent_.reset();
  throw Error("the agent does not start; see " + file("agent.log").string());
}

void Rounds::start_trainers() {
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    const std::uint64_t seed = random_();
    const std::string uuid = machine_->gpu(gpu).uuid();
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(99);
      train_until_killed(file("lease.sock"), uuid, static_cast<std::uint32_t>(gpu), seed);
    }
    trainers_.push_back(std::make_unique<Child>(pid));
  }
}

bool Rounds::gpu_changed(int gpu) {
  simgpu::SimulatedGpu& simulated = machine_->gpu(gpu);
  return simulated.locked_sm_clocks().has_value() ||
         simulated.readings().power_limit_w != simulated.model().power.limit_w;
}

bool Rounds::any_changed() {
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    if (gpu_changed(gpu)) return true;
  }
  return false;
}

void Rounds::run_round(int round) {
  enum Victims { trainers, agent, both };
  if (!agent_ || !agent_->running()) start_agent();
  start_trainers();
  // Most of what can be interrupted happens at the start: half of the kills fall there.
  const double delay_s = random(0, 1) < 0.5 ? random(0, 0.03) : random(0, 0.25);
  std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
  const auto victims = static_cast<Victims>(random_() % 3);
  if (any_changed()) ++result_.killed_while_changed;
  if (victims != trainers) {
    agent_.reset();
    ++result_.agents_killed;
  }
  if (victims != agent) result_.trainers_killed += kGpus;
  if (victims == both && random(0, 1) < 0.5) std::this_thread::sleep_for(1ms);
  trainers_.clear();  // at the latest now: they have nothing more to say to the agent that was killed
  if (victims != trainers) start_agent();
  // An agent that comes back restores before it says that it is ready; one that stayed does so soon.
  const auto deadline = Clock::now() + (victims == trainers ? Clock::duration(kPatience) : 0s);
  while (any_changed() && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    if (!gpu_changed(gpu)) continue;
    ++result_.gpus_left_changed;
    fail(round, fmt::format("GPU {} was left changed", gpu));
  }
}

KillRoundsResult Rounds::run() {
  for (int round = 0; round < options_.rounds; ++round) {
    try {
      run_round(round);
    } catch (const Error& error) {
      fail(round, error.what());
      return result_;
    }
    ++result_.rounds;
    if (options_.progress) options_.progress(result_.rounds);
  }
  return result_;
}

}  // namespace

KillRoundsResult run_kill_rounds(const KillRoundsOptions& options) { return Rounds(options).run(); }

}  // namespace lowgear::agent
