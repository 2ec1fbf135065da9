#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace lowgear {

/// Finds users and groups by name; throws Error (with any message) for one that does not exist.
struct NameLookup {
  std::function<uid_t(const std::string&)> user;
  std::function<gid_t(const std::string&)> group;
};
/// By the system's databases.
[[nodiscard]] NameLookup system_name_lookup();

/// Looks up whether a user is in a group.
using GroupLookup = std::function<bool(uid_t user, gid_t group)>;
/// By the system's databases.
[[nodiscard]] GroupLookup system_group_lookup();

}  // namespace lowgear
