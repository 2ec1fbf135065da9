#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace lowgear {

/// Finds users and groups by name; throws Error (with any message) for one that does not exist.
struct NameLookup {
  std::function<uid_t(const std::string&)> user;
  std::function<gid_t(const std::string&)> group;
};
/// Looks names up in the system's databases.
[[nodiscard]] NameLookup system_name_lookup();

/// The name of a user or group in the system's databases; empty: it has none.
[[nodiscard]] std::optional<std::string> find_user_name(uid_t user);
[[nodiscard]] std::optional<std::string> find_group_name(gid_t group);

/// Looks up whether a user is in a group.
using GroupLookup = std::function<bool(uid_t user, gid_t group)>;
/// Looks groups up in the system's databases.
[[nodiscard]] GroupLookup system_group_lookup();

/// Refuses a file or folder that controls a service when another user could have changed it: a symbolic link, another
/// owner than root or this user, or write access of its group or of everybody. Throws InputError with the command that
/// fixes it; also when it does not exist.
void require_trusted_file(const std::filesystem::path& path);
void require_trusted_folder(const std::filesystem::path& path);
/// Refuses both a file and its folder. Returns the path to read: absolute, without `.` and `..`.
[[nodiscard]] std::filesystem::path require_trusted(const std::filesystem::path& file);
/// How to hide a file of secrets that others than this user and root may read: `others may read it (mode 0644); chmod
/// 600 FILE`; empty: they may not, or it is unreadable. The group may read one that belongs to root, where this user is
/// another: so does Kubernetes mount secrets.
[[nodiscard]] std::optional<std::string> exposure_of(const std::filesystem::path& file);

}  // namespace lowgear
