#include "training/launcher/metrics_path.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <system_error>

namespace lowgear::launcher {
namespace {

namespace fs = std::filesystem;

/// Whether it is a name in /proc, where open files of processes have theirs.
bool is_in_proc(const fs::path& path) {
  struct statfs status = {};
  return ::statfs(path.parent_path().c_str(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

}  // namespace

bool is_own_metrics_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  fs::path place = fs::absolute(path);
  while (!is_in_proc(place)) {
    if (!fs::is_symlink(place, error)) return true;
    place = place.parent_path() / fs::read_symlink(place, error);
  }
  return false;
}

}  // namespace lowgear::launcher
