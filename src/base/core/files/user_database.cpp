#include "base/core/files/user_database.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <cstddef>
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

}  // namespace lowgear
