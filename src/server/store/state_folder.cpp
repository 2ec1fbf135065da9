#include "server/store/state_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/user_database.h"
#include "base/ipc/held_file.h"

namespace lowgear::server {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path) {
  const int error = errno;
  const bool is_full = error == ENOSPC || error == EDQUOT;
  const std::string_view fix =
      is_full ? "free space there, or name another state folder" : "name a state folder that this user can write to";
  const std::string message =
      fmt::format("{}: {}; {}", printable(path.string()), std::generic_category().message(error), fix);
  if (is_full) throw Error(message);
  throw InputError(message);
}

FileDescriptor open_own_file(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) refuse(path);
  require_trusted_file(path);
  return file;
}

/// The process id that the server which holds the lock has written into it.
std::string process_of(std::string_view holder) {
  const std::size_t end = std::min(holder.find_first_not_of("0123456789"), holder.size());
  return end == 0 ? "unknown" : std::string(holder.substr(0, end));
}

void hold(const FileDescriptor& lock, const std::filesystem::path& folder) {
  const ipc::FileHold hold = ipc::hold_file(lock, fmt::format("{}\n", ::getpid()));
  if (hold.outcome == ipc::FileHold::Outcome::unsupported) {
    throw InputError(fmt::format("{}: its file system has no locks; choose a state folder on another one",
                                 printable(folder.string())));
  }
  if (hold.outcome == ipc::FileHold::Outcome::taken) {
    throw InputError(fmt::format("{}: the server of process {} uses this state folder; stop it, or choose another",
                                 printable(folder.string()), process_of(hold.holder)));
  }
}

std::filesystem::path mark_of(const std::filesystem::path& folder) { return folder / "moved"; }

constexpr std::size_t kMaxMarkBytes = 8'192;

}  // namespace

StateFolder::StateFolder(const std::filesystem::path& folder) : folder_(folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) {
    flush_directory(std::filesystem::absolute(folder).lexically_normal().parent_path());
  } else if (errno != EEXIST) {
    refuse(folder);
  }
  require_trusted_folder(folder);
  lock_ = open_own_file(folder / "lock");
  hold(lock_, folder);
  (void)open_own_file(database());
  flush_directory(folder);
}

void StateFolder::check(const std::filesystem::path& folder) {
  std::error_code none;
  if (!std::filesystem::exists(folder, none)) return;
  if (::access(folder.c_str(), W_OK | X_OK) != 0) refuse(folder);
  check_writable(folder / "lock");
  for (const std::filesystem::path& file : {folder / "lock", database_of(folder)}) {
    if (::access(file.c_str(), R_OK | W_OK) != 0 && errno != ENOENT) refuse(file);
  }
}

void StateFolder::mark_moved(const std::string& where) const {
  write_file_atomically(mark_of(folder_), where + "\n");
  flush_directory(folder_);
}

void StateFolder::clear_moved() const {
  if (::unlink(mark_of(folder_).c_str()) != 0 && errno != ENOENT) refuse(mark_of(folder_));
  flush_directory(folder_);
}

std::string StateFolder::moved(const std::filesystem::path& folder) {
  if (::access(mark_of(folder).c_str(), F_OK) != 0) {
    if (errno != ENOENT) refuse(folder);
    return "";
  }
  std::string where = read_file(mark_of(folder), kMaxMarkBytes);
  where.erase(std::find_if(where.rbegin(), where.rend(), [](char c) { return c > ' '; }).base(), where.end());
  return where.empty() ? "an unknown file" : printable(where);
}

void StateFolder::require_not_moved(const std::filesystem::path& folder) {
  const std::string where = moved(folder);
  if (where.empty()) return;
  const std::string name = printable(folder.string());
  throw InputError(fmt::format(
      "{}: its jobs have moved: `lowgear serve backup --final` wrote them to {}. Start the server where that file was "
      "restored. To serve them here again, restore that server's last backup into this folder, or, if no other server "
      "has run since, remove {}",
      name, where, printable(mark_of(folder).string())));
}

}  // namespace lowgear::server
