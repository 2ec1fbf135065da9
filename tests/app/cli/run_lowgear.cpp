#include "app/cli/run_lowgear.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace lowgear::cli {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void redirect(int descriptor, const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(99);
}

[[noreturn]] void execute(const std::vector<std::string>& arguments) {
  std::vector<char*> argv{const_cast<char*>("lowgear")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(LOWGEAR_BINARY, argv.data());
  ::_exit(99);
}

}  // namespace

LowgearProcess::LowgearProcess(std::vector<std::string> arguments, const std::function<void()>& prepare) {
  std::string name = ::testing::TempDir() + "lowgear_run_XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder can be made: " + name);
  folder_ = name;
  child_ = ::fork();
  if (child_ < 0) throw std::runtime_error("no process can be started");
  if (child_ == 0) {
    redirect(STDOUT_FILENO, folder_ / "out");
    redirect(STDERR_FILENO, folder_ / "err");
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is ended leaves nothing running
    ::signal(SIGINT, SIG_DFL);           // shells let what they run in the background ignore it
    if (prepare) prepare();
    execute(arguments);
  }
}

LowgearProcess::~LowgearProcess() {
  if (running()) {
    send_signal(SIGKILL);
    ::waitpid(child_, &status_, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void LowgearProcess::send_signal(int signal_number) const { ::kill(child_, signal_number); }

bool LowgearProcess::sleeping() const {
  std::ifstream file(fmt::format("/proc/{}/stat", child_));
  std::string text;
  std::getline(file, text);
  return text.find(") S ") != std::string::npos;
}

bool LowgearProcess::running() {
  if (!ended_) ended_ = ::waitpid(child_, &status_, WNOHANG) == child_;
  return !ended_;
}

std::string LowgearProcess::output() const { return read_text(folder_ / "out"); }

ProgramResult LowgearProcess::wait() {
  if (!ended_) ::waitpid(child_, &status_, 0);
  ended_ = true;
  ProgramResult result;
  if (WIFEXITED(status_)) result.exit_code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) result.signal = WTERMSIG(status_);
  result.out = output();
  result.err = read_text(folder_ / "err");
  return result;
}

ProgramResult run_lowgear(std::vector<std::string> arguments, const std::function<void()>& prepare) {
  return LowgearProcess(std::move(arguments), prepare).wait();
}

Json json_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const ProgramResult result = run_lowgear(std::move(arguments));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return parse_json(result.out, "stdout");
}

std::string refusal_of(const ProgramResult& result) {
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.out, "");
  return result.err;
}

std::string refusal_of(std::vector<std::string> arguments) { return refusal_of(run_lowgear(std::move(arguments))); }

std::string write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path.string();
}

std::string small_profile(int stages) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < stages; ++stage) {
    const double work = 1 + 0.05 * ((stage * 7) % 5) + (stage + 1 == stages ? 0.2 : 0);
    for (const int clock : {1400, 1250, 1100, 950, 800}) {
      const double forward_s = work * (0.01 + 40.0 / clock);
      const double power_w = 90 + 250 * (clock / 1400.0) * (clock / 1400.0) * (clock / 1400.0);
      csv += fmt::format("{},forward,{},{},{}\n", stage, clock, forward_s, forward_s * power_w);
      csv += fmt::format("{},backward,{},{},{}\n", stage, clock, 2 * forward_s, 2 * forward_s * power_w);
    }
  }
  return csv;
}

std::vector<std::string> pipeline_command(const std::string& verb, const std::string& profile, int stages,
                                          int microbatches, const std::vector<std::string>& others) {
  std::vector<std::string> command{verb,
                                   "--profile",
                                   profile,
                                   "--stages",
                                   std::to_string(stages),
                                   "--microbatches",
                                   std::to_string(microbatches),
                                   "--blocking-power",
                                   "70"};
  command.insert(command.end(), others.begin(), others.end());
  return command;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace lowgear::cli
