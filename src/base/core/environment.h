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

/// Of this machine; empty when the system does not say.
[[nodiscard]] std::string host_name();

/// Arguments or environment variables of a program, as execve and posix_spawn take them: pointers that end with null.
class ProgramWords {
 public:
  explicit ProgramWords(std::vector<std::string> words);
  /// As `name=value`.
  explicit ProgramWords(const std::map<std::string, std::string>& variables);
  ProgramWords(const ProgramWords&) = delete;
  ProgramWords& operator=(const ProgramWords&) = delete;

  /// Valid as long as this.
  [[nodiscard]] char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

/// The environment variables of this process, with others in addition or in their place.
[[nodiscard]] std::map<std::string, std::string> environment_with(const std::map<std::string, std::string>& others);

}  // namespace lowgear
