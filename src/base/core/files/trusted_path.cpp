#include "base/core/files/trusted_path.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/core/error.h"

namespace lowgear {
namespace {

void require_trusted(const std::filesystem::path& path, mode_t kind, const char* kind_name) {
  const std::string name = printable(path.string());
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    throw InputError(fmt::format("{}: {}; check the path", name, std::generic_category().message(errno)));
  }
  if (S_ISLNK(status.st_mode)) {
    throw InputError(
        fmt::format("{}: a symbolic link, whose target another user may choose; name the {} itself", name, kind_name));
  }
  if ((status.st_mode & S_IFMT) != kind) throw InputError(fmt::format("{}: is not a {}", name, kind_name));
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
    throw InputError(
        fmt::format("{}: belongs to user {}, who could change it; chown root {}", name, status.st_uid, name));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw InputError(
        fmt::format("{}: others may write to it (mode {:04o}); chmod go-w {}", name, status.st_mode & 07777U, name));
  }
}

}  // namespace

void require_trusted_file(const std::filesystem::path& path) { require_trusted(path, S_IFREG, "file"); }
void require_trusted_folder(const std::filesystem::path& path) { require_trusted(path, S_IFDIR, "folder"); }

std::filesystem::path require_trusted(const std::filesystem::path& file) {
  std::filesystem::path absolute = std::filesystem::absolute(file).lexically_normal();
  require_trusted_folder(absolute.parent_path());
  require_trusted_file(absolute);
  return absolute;
}

}  // namespace lowgear
