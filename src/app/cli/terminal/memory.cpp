#include "app/cli/terminal/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace lowgear::cli {
namespace {

std::optional<std::uint64_t> available_on_machine() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

/// The limit of the control group that a container runs in; a file with the word `max` has none.
std::optional<std::uint64_t> available_in_group() {
  std::uint64_t limit = 0;
  std::uint64_t used = 0;
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::ifstream used_file("/sys/fs/cgroup/memory.current");
  if (!(limit_file >> limit) || !(used_file >> used)) return std::nullopt;
  return limit > used ? limit - used : 0;
}

}  // namespace

std::optional<std::uint64_t> available_memory_bytes() {
  const auto machine = available_on_machine();
  const auto group = available_in_group();
  if (machine && group) return std::min(*machine, *group);
  return machine ? machine : group;
}

}  // namespace lowgear::cli
