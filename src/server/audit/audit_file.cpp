#include "server/audit/audit_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/files/user_database.h"

namespace lowgear::server {
namespace {

std::string reason(const std::filesystem::path& path, int error) {
  return fmt::format("{}: {}", printable(path.string()), std::generic_category().message(error));
}

/// Whether the file ends within a line, as one that a crash of the machine has cut off.
bool ends_within_a_line(int file, std::size_t bytes) {
  char last = '\n';
  if (bytes == 0) return false;
  return ::pread(file, &last, 1, static_cast<off_t>(bytes - 1)) == 1 && last != '\n';
}

/// Throws Error when the file cannot be opened, and InputError when it is no regular file.
FileDescriptor open_to_append(const std::filesystem::path& path, int flags, struct stat& status) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600));
  if (!file) throw Error(reason(path, errno));
  if (::fstat(file.get(), &status) != 0) throw Error(reason(path, errno));
  if (!S_ISREG(status.st_mode)) throw InputError(printable(path.string()) + ": is not a regular file");
  return file;
}

}  // namespace

void AuditFile::check(const std::filesystem::path& path) {
  try {
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) {
      (void)open_to_append(path, 0, status);
      // Root may look at the file of a server that is another user.
      if (::geteuid() != 0 || status.st_uid == 0) (void)require_trusted(path);
    } else {
      check_writable(path);
    }
  } catch (const Error& error) {
    throw InputError(fmt::format("the audit log cannot be written: {}", error.what()));
  }
}

AuditFile::AuditFile(AuditFileOptions options) : options_(std::move(options)) {
  try {
    open();
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw InputError(fmt::format("the audit log cannot be written: {}", error.what()));
  }
}

void AuditFile::append(std::string_view lines) {
  reopen_if_moved();
  if (bytes_ > 0 && bytes_ + lines.size() > options_.max_bytes) rotate();
  const int failed = write_all(file_.get(), lines);
  const int error = failed != 0 ? failed : (::fdatasync(file_.get()) == 0 ? 0 : errno);
  if (error == 0) {
    bytes_ += lines.size();
    return;
  }
  // What is half written must not stay before what is written next.
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) file_.reset();
  throw Error(reason(options_.path, error));
}

void AuditFile::open() {
  struct stat status {};
  FileDescriptor file = open_to_append(options_.path, O_CREAT, status);
  (void)require_trusted(options_.path);
  bytes_ = static_cast<std::size_t>(status.st_size);
  if (ends_within_a_line(file.get(), bytes_)) {
    if (const int error = write_all(file.get(), "\n")) throw Error(reason(options_.path, error));
    ++bytes_;
  }
  flush_directory(options_.path.parent_path());
  file_ = std::move(file);
}

void AuditFile::reopen_if_moved() {
  struct stat named {};
  struct stat held {};
  const bool same = file_ && ::stat(options_.path.c_str(), &named) == 0 && ::fstat(file_.get(), &held) == 0 &&
                    named.st_dev == held.st_dev && named.st_ino == held.st_ino;
  if (same) {
    bytes_ = static_cast<std::size_t>(held.st_size);  // logrotate's copytruncate cuts it off
    return;
  }
  file_.reset();
  open();
}

std::filesystem::path AuditFile::older(int number) const {
  return options_.path.string() + "." + std::to_string(number);
}

void AuditFile::rotate() {
  if (options_.files > 1) {
    for (int number = options_.files - 1; number >= 1; --number) {
      const std::filesystem::path from = number == 1 ? options_.path : older(number - 1);
      if (::rename(from.c_str(), older(number).c_str()) != 0 && errno != ENOENT) throw Error(reason(from, errno));
    }
  } else if (::unlink(options_.path.c_str()) != 0) {
    throw Error(reason(options_.path, errno));
  }
  file_.reset();
  open();
}

}  // namespace lowgear::server
