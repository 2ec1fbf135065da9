/// What a whole program takes: wall clock and peak memory of RUNS runs of a command, one after the other. Its standard
/// output is dropped.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "measurement.h"

namespace lowgear::bench {
namespace {

struct Run {
  double wall_s = 0;
  double peak_mb = 0;  ///< largest resident set; 1 MB = 10^6 bytes
};

[[noreturn]] void become(char* const* command) {
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDOUT_FILENO);
  execvp(command[0], command);
  std::perror(command[0]);
  _exit(127);
}

/// None when the command cannot be run or fails.
std::optional<Run> run(char* const* command) {
  Run run;
  int status = 0;
  rusage usage{};
  run.wall_s = seconds_of([&] {
    const pid_t child = fork();
    if (child == 0) become(command);
    if (child < 0 || wait4(child, &status, 0, &usage) < 0) status = -1;
  });
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  run.peak_mb = static_cast<double>(usage.ru_maxrss) * 1024e-6;  // Linux counts in KiB
  return run;
}

}  // namespace
}  // namespace lowgear::bench

int main(int argc, char** argv) {
  using namespace lowgear::bench;
  const int runs = argc > 2 ? std::atoi(argv[1]) : 0;
  if (runs < 1) {
    fmt::print(stderr, "usage: process_study RUNS COMMAND [ARGUMENT...]\n");
    return 2;
  }
  std::vector<double> wall_s;
  double peak_mb = 0;
  for (int i = 0; i < runs; ++i) {
    const auto found = run(argv + 2);
    if (!found) {
      fmt::print(stderr, "process_study: {} failed\n", argv[2]);
      return 1;
    }
    wall_s.push_back(found->wall_s);
    peak_mb = std::max(peak_mb, found->peak_mb);
  }
  const Spread spread = spread_of(wall_s);
  fmt::print("| {:.3f} s | {:.3f} s to {:.3f} s | {} | {:.0f} MB |\n", spread.median, spread.min, spread.max, runs,
             peak_mb);
  return 0;
}
