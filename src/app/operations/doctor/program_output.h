#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lowgear::operations::doctor {

/// Limits at which another program is ended.
struct ProgramLimits {
  std::chrono::milliseconds time{30'000};
  std::size_t bytes = std::size_t{4} << 20U;  ///< of each of its two outputs
};

/// Output and end of a program.
struct ProgramOutput {
  std::string out;
  std::string err;
  std::string
      problem;  ///< `ended with 1`, `did not end within 30 s`, `cannot be started: ...`; empty where it ended with 0
};

/// Runs a program, found as by a shell, to its end or to a limit, with these environment variables in addition to this
/// process' own and nothing to read. At a limit it is killed with the processes that it has started. `between` is
/// called every few milliseconds; its exceptions pass through, after the program was killed. Throws Error where the
/// system has no descriptors left.
[[nodiscard]] ProgramOutput run_for_output(const std::vector<std::string>& words,
                                           const std::map<std::string, std::string>& variables,
                                           const ProgramLimits& limits, const std::function<void()>& between = {});

}  // namespace lowgear::operations::doctor
