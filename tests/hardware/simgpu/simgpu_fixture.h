#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/core/temporary_folder.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::simgpu {

/// A child process that runs a function, and is killed and waited for at the end if it still runs then. The function
/// must not use what the parent's threads may hold.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<void()>& run) : pid_(::fork()) {
    if (pid_ != 0) return;
    constexpr unsigned kLongestS = 60;
    ::alarm(kLongestS);  // ends itself, should the parent be gone
    int code = 1;
    try {
      run();
      code = 0;
    } catch (...) {
    }
    ::_exit(code);
  }
  ~ChildProcess() {
    kill();
    (void)wait();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() const {
    if (!waited_) ::kill(pid_, SIGKILL);
  }
  /// Waits until it has ended, and answers its status as waitpid(2) gives it.
  int wait() {
    if (!waited_) {
      ::waitpid(pid_, &status_, 0);
      waited_ = true;
    }
    return status_;
  }
  /// Whether it ended by itself, with code 0.
  bool succeeded() {
    const int status = wait();
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_;
  int status_ = 0;
  bool waited_ = false;
};

/// Tests on a simulated machine in virtual time, in a folder of their own.
class SimulatedMachineTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path file() const { return folder_ / "machine"; }
  std::unique_ptr<SimulatedMachine> make(std::string_view gpus = "H100",
                                         SimulatedClock clock = SimulatedClock::virtual_) const {
    return SimulatedMachine::create(file(), {.gpus = gpu_models_from_text(gpus), .clock = clock});
  }
  [[nodiscard]] std::unique_ptr<SimulatedMachine> open() const { return SimulatedMachine::open(file()); }

 private:
  TemporaryFolder folder_;
};

}  // namespace lowgear::simgpu
