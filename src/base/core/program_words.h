#pragma once

#include <map>
#include <string>
#include <vector>

namespace lowgear {

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
