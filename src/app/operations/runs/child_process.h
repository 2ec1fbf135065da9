#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lowgear::operations {

/// A program that this one starts.
struct ChildCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  ///< in addition to this process' own
  std::filesystem::path output;                    ///< file that standard output and error are appended to
};

/// It runs in a process group of its own, so that a terminal's Ctrl-C reaches this process alone. It receives SIGTERM
/// when this process ends, however that ends.
class ChildProcess {
 public:
  /// Throws Error when it cannot be started, and InputError when the output cannot be written.
  explicit ChildProcess(const ChildCommand& command);
  /// Ends it: SIGTERM, and SIGKILL after 30 s.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// How it ended, as a shell reports it (128 + signal); empty while it runs.
  [[nodiscard]] std::optional<int> status();

 private:
  pid_t child_ = -1;
  std::optional<int> status_;
};

}  // namespace lowgear::operations
