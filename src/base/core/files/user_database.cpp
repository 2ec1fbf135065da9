#include "base/core/files/user_database.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <vector>

#include "base/core/error.h"

namespace lowgear {

NameLookup system_name_lookup() {
  return {.user = [](const std::string& name) -> uid_t {
            std::array<char, 4096> buffer{};
            passwd entry{};
            passwd* found = nullptr;
            if (getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
              throw Error(fmt::format("there is no user {}", quote(name)));
            }
            return found->pw_uid;
          },
          .group = [](const std::string& name) -> gid_t {
            std::array<char, 65536> buffer{};
            ::group entry{};
            ::group* found = nullptr;
            if (getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
              throw Error(fmt::format("there is no group {}; groupadd --system {}", quote(name), printable(name, 40)));
            }
            return found->gr_gid;
          }};
}

std::optional<std::string> find_user_name(uid_t user) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return std::nullopt;
  return found->pw_name;
}

std::optional<std::string> find_group_name(gid_t group) {
  std::array<char, 65536> buffer{};  // of all its members
  ::group entry{};
  ::group* found = nullptr;
  if (getgrgid_r(group, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return std::nullopt;
  return found->gr_name;
}

GroupLookup system_group_lookup() {
  return [](uid_t user, gid_t group) {
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return false;
    std::vector<gid_t> groups(64);
    auto count = static_cast<int>(groups.size());
    if (getgrouplist(found->pw_name, found->pw_gid, groups.data(), &count) < 0) {
      groups.resize(static_cast<std::size_t>(count));
      if (getgrouplist(found->pw_name, found->pw_gid, groups.data(), &count) < 0) return false;
    }
    groups.resize(static_cast<std::size_t>(count));
    return std::ranges::find(groups, group) != groups.end();
  };
}

namespace {

struct stat status_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return status;
  const int error = errno;
  throw InputError(
      fmt::format("{}: {}; check the path", printable(path.string()), std::generic_category().message(error)));
}

void require_trusted(const std::filesystem::path& path, mode_t kind, const char* kind_name) {
  const std::string name = printable(path.string());
  const struct stat status = status_of(path);
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
  (void)status_of(
      absolute);  // a missing file is named by its own name, also where its folder is missing or open to all
  require_trusted_folder(absolute.parent_path());
  require_trusted_file(absolute);
  return absolute;
}

std::optional<std::string> exposure_of(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return std::nullopt;
  const bool by_its_group = status.st_uid == 0 && ::geteuid() != 0;
  const auto others = static_cast<mode_t>(by_its_group ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO);
  if ((status.st_mode & others) == 0) return std::nullopt;
  return fmt::format("others may read it (mode {:04o}); chmod 600 {}", status.st_mode & 07777U,
                     printable(file.string()));
}

}  // namespace lowgear
