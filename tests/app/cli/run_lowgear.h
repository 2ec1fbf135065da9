#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/core/formats/json.h"

namespace lowgear::cli {

/// What a run of the program left.
struct ProgramResult {
  int exit_code = -1;  ///< -1 when a signal ended it
  int signal = 0;
  std::string out;
  std::string err;
};

/// The program as a process of its own, started at once. Its output goes to files that the parent reads at the end.
class LowgearProcess {
 public:
  /// `prepare` runs in the child before the program starts, after its output has been redirected.
  explicit LowgearProcess(std::vector<std::string> arguments, const std::function<void()>& prepare = {});
  ~LowgearProcess();
  LowgearProcess(const LowgearProcess&) = delete;
  LowgearProcess& operator=(const LowgearProcess&) = delete;

  void send_signal(int signal_number) const;
  /// Whether it waits in the system, as for a read.
  [[nodiscard]] bool sleeping() const;
  /// Whether it is still at work.
  [[nodiscard]] bool running();
  /// What it has written to standard output until now.
  [[nodiscard]] std::string output() const;
  /// Waits for its end.
  [[nodiscard]] ProgramResult wait();

 private:
  pid_t child_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::filesystem::path folder_;
};

/// Runs it to its end.
[[nodiscard]] ProgramResult run_lowgear(std::vector<std::string> arguments, const std::function<void()>& prepare = {});
/// What a run with `--json` prints, which must succeed.
[[nodiscard]] Json json_of(std::vector<std::string> arguments);
/// What a run says on standard error that must refuse its arguments or files, and print nothing else.
[[nodiscard]] std::string refusal_of(const ProgramResult& result);
[[nodiscard]] std::string refusal_of(std::vector<std::string> arguments);

/// Writes a file and returns its path.
std::string write_text(const std::filesystem::path& path, const std::string& text);

/// A profile whose stages differ and whose last one is the heaviest: t = 1 + 1000 / f of about 50 ms, five clocks.
[[nodiscard]] std::string small_profile(int stages);

/// `--profile PATH --stages S --microbatches M --blocking-power 70` after `verb`, and then the others.
[[nodiscard]] std::vector<std::string> pipeline_command(const std::string& verb, const std::string& profile, int stages,
                                                        int microbatches, const std::vector<std::string>& others = {});

/// Lines of a text.
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);

}  // namespace lowgear::cli
