#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear {

/// Looks up a variable of the environment; empty when it is not set.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

/// The variables of this process.
[[nodiscard]] Environment process_environment();

/// A variable of this process; empty when it is not set.
[[nodiscard]] std::string environment_text(std::string_view name);

/// Name of this machine; empty when the system gives none.
[[nodiscard]] std::string host_name();

/// Identifies one boot of one machine, and so its monotonic clock: the kernel's random identifier. Empty when the
/// kernel gives none.
[[nodiscard]] std::string boot_id();

/// Arguments or environment variables of a program, as execve and posix_spawn take them: pointers that end with null.
class ProgramWords {
 public:
  explicit ProgramWords(std::vector<std::string> words);
  /// As `name=value`.
  explicit ProgramWords(const std::map<std::string, std::string>& variables);
  ProgramWords(const ProgramWords&) = delete;
  ProgramWords& operator=(const ProgramWords&) = delete;
  ~ProgramWords() = default;

  /// Valid as long as this.
  [[nodiscard]] char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

/// The environment variables of this process; `others` add to them and replace them.
[[nodiscard]] std::map<std::string, std::string> environment_with(const std::map<std::string, std::string>& others);

}  // namespace lowgear
