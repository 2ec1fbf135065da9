#include "base/core/files/file_watch.h"

#include <sys/stat.h>

#include <utility>

namespace lowgear {
namespace {

std::int64_t ns_of(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

FileWatch::FileWatch(std::vector<std::filesystem::path> files)
    : files_(std::move(files)), reported_(look()), seen_(reported_) {}

bool FileWatch::changed() {
  std::vector<State> now = look();
  const bool settled = now == seen_;
  seen_ = std::move(now);
  if (!settled || seen_ == reported_) return false;
  reported_ = seen_;
  return true;
}

std::vector<FileWatch::State> FileWatch::look() const {
  std::vector<State> states;
  for (const std::filesystem::path& file : files_) {
    struct stat status {};
    State& state = states.emplace_back();
    if (::stat(file.c_str(), &status) != 0) continue;
    state = {.device = status.st_dev,
             .inode = status.st_ino,
             .bytes = status.st_size,
             .modified_ns = ns_of(status.st_mtim),
             .changed_ns = ns_of(status.st_ctim)};
  }
  return states;
}

}  // namespace lowgear
