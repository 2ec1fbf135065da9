#include "base/core/files/temporary_name.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/core/files/folder_manifest.h"

namespace lowgear {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryEnd = ".tmp";

/// Empty where the system does not show it.
std::string process_space() {
  std::error_code error;
  const fs::path pids = fs::read_symlink("/proc/self/ns/pid", error);
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  if (error || !std::getline(file, boot)) return {};
  return fmt::format("{:016x}", std::hash<std::string>{}(boot + pids.native()));
}

/// The names are short, as that of the complete file may be the longest that the file system allows.
std::string prefix_of(const std::string& space) { return fmt::format(".lowgear-{}-", space); }

/// The process id in the name of a temporary. Empty for other names.
std::optional<pid_t> writer_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kTemporaryEnd)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const std::string_view digits = name.substr(0, name.find('-'));
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  if (error != std::errc() || end != digits.data() + digits.size() || pid <= 0) return std::nullopt;
  return pid;
}

bool is_leftover(const fs::path& path, std::string_view prefix) {
  const auto pid = writer_of(path.filename().native(), prefix);
  if (!pid || ::kill(*pid, 0) == 0 || errno != ESRCH) return false;
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

}  // namespace

std::string temporary_name(int attempt) {
  return fmt::format("{}{}-{}{}", prefix_of(process_space()), ::getpid(), attempt, kTemporaryEnd);
}

void remove_leftovers(const fs::path& folder) {
  const std::string space = process_space();
  if (space.empty()) return;
  const std::string prefix = prefix_of(space);
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!is_leftover(entry->path(), prefix)) continue;
    std::error_code ignored;
    if (fs::exists(entry->path() / kFolderManifestName, ignored)) {
      remove_listed_files(entry->path());
    } else {
      fs::remove_all(entry->path(), ignored);
    }
  }
}

}  // namespace lowgear
