#include "base/core/files/temporary_name.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "base/core/files/folder_manifest.h"

namespace lowgear {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryEnd = ".tmp";

/// Empty where the system does not show it.
std::string read_process_space() {
  std::error_code error;
  const fs::path pids = fs::read_symlink("/proc/self/ns/pid", error);
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  if (error || !std::getline(file, boot)) return {};
  return fmt::format("{:016x}", std::hash<std::string>{}(boot + pids.native()));
}

/// Read once: neither changes while a process runs.
const std::string& process_space() {
  static const std::string kSpace = read_process_space();
  return kSpace;
}

/// The names are short, as that of the complete file may be the longest that the file system allows.
std::string prefix_of(const std::string& space) { return fmt::format(".lowgear-{}-", space); }

/// Empty where the text has other characters than digits.
std::optional<pid_t> number_of(std::string_view digits) {
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  pid_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// The process id in the name of a temporary. Empty for other names.
std::optional<pid_t> writer_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kTemporaryEnd)) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(std::min(kTemporaryEnd.size(), name.size()));
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos || !number_of(name.substr(dash + 1))) return std::nullopt;
  return number_of(name.substr(0, dash));
}

bool is_of_ended_process(std::string_view name, std::string_view prefix) {
  const auto pid = writer_of(name, prefix);
  return pid && *pid > 0 && ::kill(*pid, 0) != 0 && errno == ESRCH;
}

/// Whether an exchange by renames was interrupted while it had set the earlier folder aside: which of the two the user
/// wants is not known here.
bool has_counterpart(const fs::path& path, bool is_aside) {
  fs::path other = path;
  if (is_aside) {
    other.replace_extension();
  } else {
    other += kSetAside;
  }
  struct stat status = {};
  return ::lstat(other.c_str(), &status) == 0 || errno != ENOENT;
}

/// A link stays, and so does everything that it leads to.
void remove_leftover(const fs::path& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return;
  std::error_code error;
  if (S_ISREG(status.st_mode)) {
    fs::remove(path, error);
  } else if (S_ISDIR(status.st_mode)) {
    if (fs::symlink_status(path / kStagingMark, error).type() == fs::file_type::regular) {
      fs::remove_all(path, error);
    } else {
      remove_listed_files(path);
    }
  }
}

}  // namespace

std::string temporary_name(int attempt) {
  return fmt::format("{}{}-{}{}", prefix_of(process_space()), ::getpid(), attempt, kTemporaryEnd);
}

void remove_leftovers(const fs::path& folder) {
  const std::string& space = process_space();
  if (space.empty()) return;
  const std::string prefix = prefix_of(space);
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    const bool is_aside = path.extension() == kSetAside;
    if (!is_of_ended_process((is_aside ? path.stem() : path.filename()).native(), prefix)) continue;
    if (!has_counterpart(path, is_aside)) remove_leftover(path);
  }
}

void remove_leftovers_once(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> done;
  {
    const std::lock_guard lock(mutex);
    if (!done.insert(folder).second) return;
  }
  remove_leftovers(folder);
}

}  // namespace lowgear
