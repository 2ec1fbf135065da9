#include "base/core/files/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/files/file_kind.h"
#include "base/core/files/folder_manifest.h"
#include "base/core/files/memory_files.h"
#include "base/core/files/temporary_name.h"
#include "base/core/log.h"

namespace lowgear {

namespace {

namespace fs = std::filesystem;

std::string reason(int error_number) { return std::generic_category().message(error_number); }

[[noreturn]] void throw_read_error(const fs::path& path, std::string_view why, std::string_view fix = {}) {
  throw_input_error({path.string(), 0, 0}, fmt::format("cannot be read: {}", why), fix);
}

[[noreturn]] void throw_read_error(const fs::path& path, int error_number) {
  if (error_number == ENOENT) require_no_address(path);
  const bool is_path = error_number == ENOENT || error_number == ENOTDIR || error_number == ENAMETOOLONG;
  const std::string_view fix = error_number == ELOOP    ? "its links lead to each other; name the file itself"
                               : error_number == EACCES ? "allow this user to read it, or name another file"
                               : is_path                ? "check the path"
                                                        : "";
  throw_read_error(path, reason(error_number), fix);
}

[[noreturn]] void throw_too_large(const fs::path& path, std::size_t max_bytes) {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  const std::string most =
      max_bytes % kMebibyte == 0 ? fmt::format("{} MiB", max_bytes / kMebibyte) : fmt::format("{} bytes", max_bytes);
  throw_read_error(path, fmt::format("it is larger than {}", most), "check that it is the right file");
}

/// Reasons that lie in what the user asked for. All others (a full disk, a broken one) are the system's.
bool is_users_mistake(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EINVAL:
    case ENXIO:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void throw_write_error(const fs::path& path, int error_number) {
  if (is_users_mistake(error_number)) {
    throw_input_error({path.string(), 0, 0}, fmt::format("cannot be written: {}", reason(error_number)),
                      "name another place");
  }
  const bool is_full = error_number == ENOSPC || error_number == EDQUOT;
  throw Error(fmt::format("{}: cannot be written: {}{}", printable(path.string(), std::string_view::npos),
                          reason(error_number), is_full ? "; free some space, or name another place" : ""));
}

/// Closes now, to see the error that some file systems report only then. Returns errno, 0 when all is well.
int close_now(FileDescriptor file) { return ::close(file.release()) == 0 ? 0 : errno; }

/// A device, such as a disk or /dev/zero, that is neither a terminal, at which a user may write a file, nor the empty
/// one.
bool is_foreign_device(int fd, const struct stat& status) {
  if (S_ISBLK(status.st_mode)) return true;
  return S_ISCHR(status.st_mode) && status.st_rdev != makedev(1, 3) && ::isatty(fd) == 0;
}

/// All bytes up to the end of the file. Reads one byte more than allowed to notice a stream that is too long.
std::string read_all(int fd, const fs::path& path, std::size_t max_bytes, std::size_t expected_bytes) {
  std::string content;
  std::size_t size = 0;
  while (true) {
    constexpr std::size_t kChunkBytes = 1 << 16;
    if (content.size() == size) {
      const std::size_t wanted = std::max({kChunkBytes, expected_bytes + 1, size * 2});
      content.resize(std::min(wanted, max_bytes + 1));
    }
    const ssize_t count = ::read(fd, content.data() + size, content.size() - size);
    if (count < 0) throw_read_error(path, reason(errno));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
    if (size > max_bytes) throw_too_large(path, max_bytes);
  }
  content.resize(size);
  return content;
}

/// No reader of whole files takes any of these: a table in an archive must not be taken for a text.
std::string checked(std::string content, const fs::path& path) {
  if (logs_debug()) log_debug(fmt::format("read {}: {} bytes", path.string(), content.size()));
  refuse_git_lfs_pointer(path, content);
  if (const std::string_view kind = known_file_kind(content); !kind.empty()) {
    throw_read_error(path, fmt::format("it is {}", kind), "unpack or convert it");
  }
  if (content.starts_with("\xff\xfe") || content.starts_with("\xfe\xff")) {
    throw_read_error(path, "it is text in UTF-16", "save it as UTF-8");
  }
  return content;
}

/// Returns errno, 0 when all is written.
int write_all_at(int fd, std::string_view content, std::size_t offset) {
  while (!content.empty()) {
    const ssize_t count = ::pwrite(fd, content.data(), content.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(count));
    offset += static_cast<std::size_t>(count);
  }
  return 0;
}

/// Hands temporary names to `create` until one is new. `create` returns errno, 0 when it made it. Throws when no
/// temporary can be made; the message names `path`.
template <typename Create>
fs::path make_temporary_beside(const fs::path& path, Create create) {
  constexpr int kAttempts = 10000;
  remove_leftovers_once(path.parent_path());
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    fs::path temporary = path.parent_path() / temporary_name(attempt);
    const int error_number = create(temporary);
    if (error_number == 0) return temporary;
    if (error_number == EACCES || error_number == EROFS) {
      std::error_code unknown;
      throw_input_error({path.string(), 0, 0},
                        fmt::format("cannot be written: {} in {}, where it is made", reason(error_number),
                                    path.parent_path().string()),
                        fs::is_directory(path, unknown) ? "name a new folder inside it" : "name another place");
    }
    if (error_number != EEXIST) throw_write_error(path, error_number);
  }
  throw_write_error(path, EEXIST);
}

/// Where a path leads, links followed as far as they lead somewhere. Those of /dev/stdout to a pipe lead to no path.
fs::path resolve(const fs::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) return path;
  std::error_code error;
  fs::path resolved = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) throw_write_error(path, error.value());
  if (!resolved.has_filename()) resolved = resolved.parent_path();  // a trailing slash
  return resolved;
}

/// Returns errno, 0 when all is written.
int write_file(const fs::path& path, std::string_view content) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return errno;
  const int error_number = write_all(file.get(), content);
  return error_number != 0 ? error_number : close_now(std::move(file));
}

int rename_path(const fs::path& from, const fs::path& to) {
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

fs::path set_aside(const fs::path& a) {
  fs::path aside = a;
  return aside += kSetAside;
}

/// Returns errno, 0 when done.
int exchange_by_renames(const fs::path& a, const fs::path& b) {
  const fs::path aside = set_aside(a);
  if (const int error_number = rename_path(b, aside)) return error_number;
  if (const int error_number = rename_path(a, b)) {
    rename_path(aside, b);
    return error_number;
  }
  return rename_path(aside, a);
}

/// Returns errno, 0 when done.
int make_staging(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) return errno;
  const int error_number = write_file(folder / kStagingMark, "");
  if (error_number != 0) ::rmdir(folder.c_str());
  return error_number;
}

bool is_mount_point(const fs::path& path) {
  struct statx status = {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_TYPE, &status) != 0) return false;
  return (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

}  // namespace

void require_no_address(const fs::path& path) {
  if (path.native().find("://") == std::string::npos) return;
  throw_input_error({path.string(), 0, 0}, "cannot be read: commands read files, not addresses",
                    "download it and name the file");
}

std::string read_file(const fs::path& path, std::size_t max_bytes) {
  if (const std::string* text = MemoryFiles::given(path)) {
    if (text->size() > max_bytes) throw_too_large(path, max_bytes);
    return checked(*text, path);
  }
  if (MemoryFiles::holds(path)) throw_read_error(path, ENOENT);
  if (path == "-" && MemoryFiles::current() != nullptr) {
    throw_read_error(path, "standard input belongs to the caller of a library", "name a file");
  }
  if (path == "-") return checked(read_all(STDIN_FILENO, "<stdin>", max_bytes, 0), "<stdin>");
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (!file || ::fstat(file.get(), &status) != 0) throw_read_error(path, errno);
  if (S_ISDIR(status.st_mode)) throw_read_error(path, "it is a folder", "name a file");
  if (is_foreign_device(file.get(), status)) throw_read_error(path, "it is a device", "name a file");
  const auto size = S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) : 0;
  if (size > max_bytes) throw_too_large(path, max_bytes);
  return checked(read_all(file.get(), path, max_bytes, size), path);
}

void flush_directory(const fs::path& path) {
  const FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) ::fsync(directory.get());
}

void exchange_directories(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
  if (const int error_number = exchange_by_renames(a, b)) throw_write_error(b, error_number);
}

bool is_set_aside(const fs::path& path) { return path.filename().string().ends_with(kSetAside); }

void settle_exchange(const fs::path& a, const fs::path& b) {
  const fs::path aside = set_aside(a);
  std::error_code error;
  if (!fs::exists(aside, error)) return;
  if (fs::exists(b, error)) {
    fs::remove_all(aside, error);
  } else {
    fs::rename(aside, b, error);
  }
  if (error) throw_write_error(b, error.value());
}

namespace {

/// Of what is to be written. `-`, standard input where files are read, would become a file of that name.
void require_name(const fs::path& path) {
  if (path.empty()) throw InputError("cannot write a file or folder without a name");
  if (path == "-") throw InputError("\"-\" is no name of a file or folder to write; name a file or folder");
}

}  // namespace

void write_file_atomically(const fs::path& path, std::string_view content) {
  require_name(path);
  if (MemoryFiles* memory = MemoryFiles::keeper_of(path)) return memory->write(path, content);
  const fs::path target = resolve(path);
  struct stat status = {};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) throw_write_error(path, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    FileDescriptor device(::open(target.c_str(), O_WRONLY | O_CLOEXEC));
    if (!device) throw_write_error(path, errno);
    if (const int error_number = write_all(device.get(), content)) throw_write_error(path, error_number);
    return;
  }

  StagedFile file(path);
  file.write(content);
  file.commit();
}

void check_writable(const fs::path& path) {
  if (MemoryFiles::keeper_of(path) != nullptr) return;
  const fs::path target = resolve(path);
  struct stat status = {};
  const bool is_device = ::stat(target.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  if (!is_device) {
    const StagedFile probe(path);
  } else if (::access(target.c_str(), W_OK) != 0) {
    throw_write_error(path, errno);
  }
}

StagedFile::StagedFile(const fs::path& target) : name_(target) {
  require_name(target);
  target_ = resolve(target);
  struct stat status = {};
  if (::stat(target_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    if (S_ISDIR(status.st_mode)) throw_write_error(name_, EISDIR);
    throw_input_error({name_.string(), 0, 0}, "exists and is not a regular file", "name another place");
  }
  temporary_ = make_temporary_beside(target_, [this](const fs::path& name) {
    descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return descriptor_ >= 0 ? 0 : errno;
  });
}

StagedFile::~StagedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void StagedFile::write(std::string_view content) {
  if (const int error_number = write_all(descriptor_, content)) throw_write_error(name_, error_number);
}

void StagedFile::overwrite(std::size_t offset, std::string_view content) {
  if (const int error_number = write_all_at(descriptor_, content, offset)) throw_write_error(name_, error_number);
}

void StagedFile::commit() {
  int error_number = ::fsync(descriptor_) != 0 ? errno : 0;
  // Closed also after an error; some file systems report one only here.
  if (::close(std::exchange(descriptor_, -1)) != 0 && error_number == 0) error_number = errno;
  if (error_number == 0) error_number = rename_path(temporary_, target_);
  if (error_number != 0) throw_write_error(name_, error_number);
  temporary_.clear();
  flush_directory(target_.parent_path());
}

void check_replaceable(const fs::path& folder) {
  const SourceLocation where{folder.string(), 0, 0};
  std::error_code error;
  if (is_mount_point(folder)) throw_input_error(where, "is a mount point", "name a folder inside it");
  if (fs::equivalent(folder, fs::current_path(error), error)) {
    throw_input_error(where, "is the current folder", "name a folder inside it");
  }
}

StagedDirectory::StagedDirectory(const fs::path& target, std::string marker) : marker_(std::move(marker)) {
  require_name(target);
  if (MemoryFiles::keeper_of(target) != nullptr) {
    target_ = target;
    return;
  }
  target_ = resolve(target);
  check_target();
  try {
    make_parents();
    staging_ = make_temporary_beside(target_, make_staging);
  } catch (...) {
    remove_made_parents();
    throw;
  }
}

StagedDirectory::~StagedDirectory() {
  if (committed_ || staging_.empty()) return;
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
  remove_made_parents();
}

void StagedDirectory::check_target() const {
  const SourceLocation where{target_.string(), 0, 0};
  std::error_code error;
  const fs::file_status status = fs::status(target_, error);
  if (status.type() == fs::file_type::not_found) return;
  if (error) throw_write_error(target_, error.value());
  if (!fs::is_directory(status)) throw_input_error(where, "exists and is not a folder", "name a folder");
  check_replaceable(target_);
  const bool empty = fs::is_empty(target_, error);
  if (error) throw_write_error(target_, error.value());
  if (!empty && !fs::is_regular_file(target_ / marker_, error)) {
    throw_input_error(where, fmt::format("is not empty and contains no {}, so it is not an earlier output", marker_),
                      "name a new or an empty folder");
  }
  if (!empty) require_listed(target_);
}

void StagedDirectory::make_parents() {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path parent = target_.parent_path(); !fs::exists(parent, error) && !error; parent = parent.parent_path()) {
    missing.insert(missing.begin(), parent);
  }
  for (const fs::path& parent : missing) {
    if (::mkdir(parent.c_str(), 0777) == 0) {
      made_parents_.insert(made_parents_.begin(), parent);
    } else if (errno != EEXIST) {
      throw_write_error(target_, errno);
    }
  }
}

void StagedDirectory::remove_made_parents() const noexcept {
  // Only while empty: rmdir leaves a folder that others have begun to use.
  for (const fs::path& parent : made_parents_) ::rmdir(parent.c_str());
}

void StagedDirectory::write(const fs::path& relative, std::string_view content) {
  if (MemoryFiles* memory = MemoryFiles::keeper_of(target_)) return memory->write(target_ / relative, content);
  const fs::path path = staging_ / relative;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) throw_write_error(target_ / relative, error.value());
  if (const int error_number = write_file(path, content)) throw_write_error(target_ / relative, error_number);
}

void StagedDirectory::commit() {
  if (staging_.empty()) return;  // in memory
  FolderFiles files = all_files(staging_);
  files.erase(std::string(kStagingMark));
  write(kFolderManifestName, write_folder_manifest(files));
  if (::unlink((staging_ / kStagingMark).c_str()) != 0) throw_write_error(target_, errno);
  // A plain rename replaces an absent or empty target, and refuses any other.
  const int error_number = rename_path(staging_, target_);
  if (error_number == ENOTEMPTY || error_number == EEXIST) {
    check_target();
    exchange_directories(staging_, target_);
    committed_ = true;  // what has the temporary name is the earlier output, which is not to be removed as a whole
    if (unlisted_entry(staging_)) {
      exchange_directories(staging_, target_);
      committed_ = false;
      require_listed(target_);
    }
    remove_listed_files(staging_);
    std::error_code unknown;
    if (fs::exists(staging_, unknown)) left_behind_ = staging_;
  } else if (error_number != 0) {
    throw_write_error(target_, error_number);
  }
  committed_ = true;
}

}  // namespace lowgear
