#include "server/state_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "core/file.h"
#include "core/trusted_path.h"

namespace lowgear {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path) {
  throw InputError(fmt::format("{}: {}", printable(path.string()), std::generic_category().message(errno)));
}

FileDescriptor open_own_file(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) refuse(path);
  require_trusted_file(path);
  return file;
}

/// The process id that the server which holds the lock has written into it.
std::string holder_of(const FileDescriptor& lock) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(lock.get(), text.data(), text.size(), 0);
  const std::string_view digits(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  return end == 0 ? "unknown" : std::string(digits.substr(0, end));
}

void write_holder(const FileDescriptor& lock, const std::filesystem::path& path) {
  const std::string text = fmt::format("{}\n", ::getpid());
  // Room for it was there before, unless the file is new: a full disk is told by the database.
  if (::ftruncate(lock.get(), 0) != 0) refuse(path);
  if (::pwrite(lock.get(), text.data(), text.size(), 0) < 0 && errno != ENOSPC && errno != EDQUOT) refuse(path);
}

}  // namespace

StateFolder::StateFolder(const std::filesystem::path& folder) : folder_(folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) {
    flush_directory(std::filesystem::absolute(folder).lexically_normal().parent_path());
  } else if (errno != EEXIST) {
    refuse(folder);
  }
  require_trusted_folder(folder);
  const std::filesystem::path lock_path = folder / "lock";
  lock_ = open_own_file(lock_path);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    throw InputError(fmt::format("{}: the server of process {} uses this state folder; stop it, or choose another",
                                 printable(folder.string()), holder_of(lock_)));
  }
  write_holder(lock_, lock_path);
  (void)open_own_file(database());
  flush_directory(folder);
}

}  // namespace lowgear
