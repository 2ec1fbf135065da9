#include "server/store/state_backup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/files/user_database.h"
#include "server/store/database.h"
#include "server/store/state_folder.h"
#include "server/store/store_tables.h"

namespace lowgear::server {

namespace {

constexpr std::string_view kMark = "lowgear.backup/1 sha256 ";
constexpr std::size_t kSealBytes = kMark.size() + 64 + 1;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

template <typename Failure>
[[noreturn]] void fail(const std::filesystem::path& file) {
  throw Failure(fmt::format("{}: {}", printable(file.string()), std::generic_category().message(errno)));
}

FileDescriptor open_file(const std::filesystem::path& file, int flags) {
  FileDescriptor opened(::open(file.c_str(), flags | O_CLOEXEC));
  if (!opened) fail<InputError>(file);
  return opened;
}

/// The SHA-256 digest of bytes that come piece by piece.
class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    require_success(context_ ? EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) : 0);
  }
  void add(std::string_view bytes) { require_success(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size())); }
  /// Ends the digest.
  [[nodiscard]] std::string seal() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    require_success(EVP_DigestFinal_ex(context_.get(), digest.data(), &size));
    return fmt::format("{}{:02x}\n", kMark, fmt::join(std::span(digest).first(size), ""));
  }

 private:
  static void require_success(int result) {
    if (result != 1) throw Error("OpenSSL computes no SHA-256 digest");
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

/// Adds the rest of the file to the digest, except for the last `kept_bytes`, which it returns.
std::string read_into(Digest& digest, const FileDescriptor& opened, const std::filesystem::path& file,
                      std::size_t kept_bytes) {
  std::string kept;
  std::vector<char> piece(kPieceBytes);
  while (true) {
    const ssize_t size = ::read(opened.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail<InputError>(file);
    if (size == 0) return kept;
    kept.append(piece.data(), static_cast<std::size_t>(size));
    if (kept.size() <= kept_bytes) continue;
    digest.add(std::string_view(kept).substr(0, kept.size() - kept_bytes));
    kept.erase(0, kept.size() - kept_bytes);
  }
}

}  // namespace

void seal_backup(const std::filesystem::path& file) {
  const FileDescriptor opened = open_file(file, O_RDWR);
  Digest digest;
  (void)read_into(digest, opened, file, 0);
  const std::string seal = digest.seal();
  // So few bytes are written whole, or the disk is full.
  if (::write(opened.get(), seal.data(), seal.size()) != static_cast<ssize_t>(seal.size())) fail<Error>(file);
  if (::fsync(opened.get()) != 0) fail<Error>(file);
}

BackupSeal backup_seal(const std::filesystem::path& file) {
  const FileDescriptor opened = open_file(file, O_RDONLY);
  Digest digest;
  const std::string end = read_into(digest, opened, file, kSealBytes);
  if (!end.starts_with(kMark)) return BackupSeal::missing;
  return end == digest.seal() ? BackupSeal::whole : BackupSeal::broken;
}

namespace {

namespace fs = std::filesystem;

std::string shown(const fs::path& path) { return printable(path.string()); }
std::string reason(int error) { return std::generic_category().message(error); }

/// 0 where there is none.
std::int64_t bytes_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

constexpr std::size_t kShownDamage = 100;
constexpr std::string_view kUseAnother = "use another backup";
constexpr std::string_view kKeepFiles =
    "no backup is made of a state that has lost something: stop the server and copy its folder to keep it as it is, or "
    "restore an older backup";

DamagedState damaged(const fs::path& file, const std::vector<std::string>& found, std::string_view what_to_do) {
  std::string text = fmt::format("{}: damaged; {}", shown(file), what_to_do);
  for (std::size_t i = 0; i < std::min(found.size(), kShownDamage); ++i) text += "\n  " + found[i];
  if (found.size() > kShownDamage) text += fmt::format("\n  and {} more", found.size() - kShownDamage);
  return DamagedState(text);
}

/// A file that SQLite keeps next to a database: `-wal`, `-journal`.
fs::path next_to(const fs::path& database, const char* suffix) { return database.string() + suffix; }

/// Another user's folder is refused with the command that fits it, as root's files in it would stop the server.
void require_own(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    throw InputError(
        fmt::format("{}: {}; name the server's folder with --state or --config", shown(folder), reason(errno)));
  }
  if (status.st_uid == ::geteuid()) return;
  const std::string name = find_user_name(status.st_uid).value_or(fmt::format("#{}", status.st_uid));
  throw InputError(fmt::format("{}: belongs to user {}; run this as that user: runuser -u {} -- lowgear serve ...",
                               shown(folder), printable(name), printable(name)));
}

void require_room(const fs::path& folder, std::int64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || static_cast<std::int64_t>(space.available) > bytes) return;  // writing tells
  throw Error(fmt::format("{}: {} bytes are needed and {} are free; free some, or choose another disk", shown(folder),
                          bytes, space.available));
}

/// Reads what is in a database, and refuses what this program could not serve.
StateSummary summary_of(Database& database) {
  StateSummary summary;
  if (!has_schema(database)) {
    throw InputError(fmt::format("{}: an empty database, without any state of a server", shown(database.path())));
  }
  summary.bytes = database.integer("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()");
  summary.open_jobs = database.integer("SELECT count(*) FROM jobs WHERE finished_s IS NULL");
  summary.finished_jobs = database.integer("SELECT count(*) FROM jobs WHERE finished_s IS NOT NULL");
  return summary;
}

/// All of a file is read: the pages, and the rows that a server would load.
std::vector<std::string> damage_of(Database& database, const UnreadableRows& unreadable) {
  std::vector<std::string> found;
  try {
    if (const std::string damage = database.damage(); !damage.empty()) found.push_back(printable(damage));
    if (!unreadable) return found;
    for (const std::string& row : unreadable(StoreTables(database, {}).load())) found.push_back(row);
  } catch (const Error& error) {
    found.emplace_back(error.what());
  }
  return found;
}

void require_whole(Database& database, const UnreadableRows& unreadable, std::string_view what_to_do) {
  const std::vector<std::string> found = damage_of(database, unreadable);
  if (!found.empty()) throw damaged(database.path(), found, what_to_do);
}

/// Says what a file that is not as it was written has lost, as far as that can be found out.
[[noreturn]] void refuse_changed(const fs::path& file, std::string_view change, const UnreadableRows& unreadable) {
  std::vector<std::string> found{std::string(change)};
  try {
    Database database(file, Database::Sharing::shared, Database::Opening::read_only);
    for (std::string& row : damage_of(database, unreadable)) found.push_back(std::move(row));
  } catch (const Error& error) {
    found.emplace_back(error.what());
  }
  throw damaged(file, found, kUseAnother);
}

/// Runs what reads a file that may be anything: SQLite's word for it becomes one that can be acted on.
template <typename Read>
auto reading(Read read) {
  try {
    return read();
  } catch (const DatabaseError& error) {
    if (error.fault() == DatabaseFault::locked) {
      throw InputError(
          fmt::format("{}; a server that started on a full disk holds it alone: stop the server first", error.what()));
    }
    if (error.fault() != DatabaseFault::damaged) throw;
    throw InputError(fmt::format("{}; name a file that `lowgear serve backup` wrote", error.what()));
  }
}

/// Name of a backup's file until it is complete: the same in every folder, for `remove_unfinished`.
constexpr std::string_view kUnfinished = "unfinished-lowgear-backup.";
constexpr std::string_view kRandomLetters = "XXXXXX";  // mkostemp's

/// The file goes last: what is next to it is found by it.
void remove_database(const fs::path& file) {
  for (const char* suffix : {"-wal", "-shm", "-journal", ""}) (void)::unlink(next_to(file, suffix).c_str());
}

/// Locks a byte that SQLite does not lock, for as long as the file is open.
bool lock_unfinished(const FileDescriptor& file) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return ::fcntl(file.get(), F_OFD_SETLK, &lock) == 0;
}

/// Removes what backups that were killed have left in a folder: it holds the keys of ranks, and nothing else tells.
void remove_unfinished(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kUnfinished) && name.size() == kUnfinished.size() + kRandomLetters.size()) {
      found.push_back(entry->path());
    }
  }
  for (const fs::path& path : found) {
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file && lock_unfinished(file)) remove_database(path);
  }
}

/// A new file in the folder of `target` that is removed unless it gets that name.
class NewFile {
 public:
  explicit NewFile(fs::path target) : target_(std::move(target)) {
    remove_unfinished(folder_of(target_));
    while (!make()) continue;
  }
  ~NewFile() { remove_database(path_); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }
  /// Refuses to replace a file.
  void publish() {
    // A link, where the file system has them, as a rename would replace a file made meanwhile.
    if (::link(path_.c_str(), target_.c_str()) != 0) {
      if (errno == EEXIST) throw InputError(fmt::format("{}: exists already; name a new file", shown(target_)));
      if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) != 0) {
        throw Error(fmt::format("{}: {}", shown(target_), reason(errno)));
      }
    }
    flush_directory(folder_of(target_));
  }
  static fs::path folder_of(const fs::path& file) { return fs::absolute(file).lexically_normal().parent_path(); }

 private:
  /// False when the start of another backup removed it before it was locked.
  bool make() {
    std::string name = folder_of(target_) / fmt::format("{}{}", kUnfinished, kRandomLetters);
    lock_ = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
    if (!lock_) throw InputError(fmt::format("{}: {}; name another file", shown(target_), reason(errno)));
    path_ = name;
    const bool taken = !lock_unfinished(lock_) && (errno == EAGAIN || errno == EACCES);  // else: there are no locks
    struct stat status {};
    return !taken && ::fstat(lock_.get(), &status) == 0 && status.st_nlink > 0;
  }

  fs::path target_;
  fs::path path_;
  FileDescriptor lock_;
};

/// Copies `from` into the file at `path`, as one file that needs no log next to it, and reads all of the copy.
StateSummary copy_whole(const fs::path& from, Database::Opening opening, const fs::path& path,
                        const UnreadableRows& unreadable, std::string_view what_to_do) {
  Database copy(path, Database::Sharing::shared);
  Database(from, Database::Sharing::shared, opening).copy_to(copy);
  copy.execute("PRAGMA journal_mode = DELETE");
  require_whole(copy, unreadable, what_to_do);
  return summary_of(copy);
}

/// Whether the folder's database is not to be replaced.
bool has_state(const fs::path& folder) {
  const fs::path database = StateFolder::database_of(folder);
  return StateFolder::moved(folder).empty() && (bytes_of(database) > 0 || bytes_of(next_to(database, "-wal")) > 0);
}

void require_replaceable(const fs::path& folder) {
  if (!has_state(folder)) return;
  throw InputError(fmt::format(
      "{}: has a database already, which is not replaced; choose another folder, or move server.db* out of it",
      shown(folder)));
}

void rename_file(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw Error(fmt::format("{}: {}", shown(to), reason(errno)));
}

/// Sets the database of a folder that has moved aside, with what SQLite keeps next to it.
void set_aside(const fs::path& database) {
  for (const char* suffix : {"-wal", "-shm"}) {
    if (fs::exists(next_to(database, suffix))) {
      rename_file(next_to(database, suffix), next_to(next_to(database, ".moved"), suffix));
    }
  }
  if (bytes_of(database) > 0) rename_file(database, next_to(database, ".moved"));
}

}  // namespace

StateSummary check_backup(const BackupRequest& request) {
  require_own(request.state);
  const fs::path database = StateFolder::database_of(request.state);
  if (bytes_of(database) == 0) {
    throw InputError(fmt::format("{}: no server has kept its state here; name the folder with --state or --config",
                                 shown(request.state)));
  }
  if (fs::exists(fs::symlink_status(request.file))) {
    throw InputError(fmt::format("{}: exists already; name a new file", shown(request.file)));
  }
  std::optional<StateFolder> held;
  if (request.kind == BackupKind::final) {
    held.emplace(request.state);
    StateFolder::require_not_moved(request.state);
  }
  const StateSummary summary = reading([&] {
    Database state(database, Database::Sharing::shared, Database::Opening::existing);
    return summary_of(state);
  });
  const fs::path folder = NewFile::folder_of(request.file);
  if (::access(folder.c_str(), W_OK) != 0) {
    throw InputError(fmt::format("{}: {}; name a file in a folder of yours", shown(folder), reason(errno)));
  }
  require_room(folder, summary.bytes);
  return summary;
}

StateSummary back_up(const BackupRequest& request) {
  (void)check_backup(request);
  std::optional<StateFolder> held;
  if (request.kind == BackupKind::final) held.emplace(request.state);  // from here on no server starts
  const fs::path database = StateFolder::database_of(request.state);
  NewFile file(request.file);
  StateSummary summary = reading(
      [&] { return copy_whole(database, Database::Opening::existing, file.path(), request.unreadable, kKeepFiles); });
  seal_backup(file.path());
  if (backup_seal(file.path()) != BackupSeal::whole) {
    throw Error(fmt::format("{}: the disk does not return what was written to it", shown(request.file)));
  }
  summary.bytes = bytes_of(file.path());
  file.publish();
  if (held) held->mark_moved(fs::absolute(request.file).lexically_normal().string());
  return summary;
}

StateSummary check_restore(const RestoreRequest& request) {
  if (!fs::is_regular_file(request.file)) {
    throw InputError(fmt::format("{}: is not a file; name one that `lowgear serve backup` wrote", shown(request.file)));
  }
  if (bytes_of(next_to(request.file, "-wal")) > 0) {
    throw InputError(
        fmt::format("{}: a copy of a server's files with its log, which may not fit it; use `lowgear serve "
                    "backup`, or start the server on these files",
                    shown(request.file)));
  }
  const BackupSeal seal = backup_seal(request.file);
  if (seal == BackupSeal::broken) {
    refuse_changed(request.file, "the file has changed since `lowgear serve backup` wrote it: its digest differs",
                   request.unreadable);
  }
  const StateSummary summary = reading([&] {
    Database file(request.file, Database::Sharing::shared, Database::Opening::read_only);
    const StateSummary found = summary_of(file);
    if (seal == BackupSeal::whole) require_whole(file, request.unreadable, kUseAnother);
    return found;
  });
  if (seal == BackupSeal::missing) {
    refuse_changed(request.file, "its end is missing, with the digest that `lowgear serve backup` writes",
                   request.unreadable);
  }
  fs::path folder = fs::absolute(request.state).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();  // of a path that ends in /
  if (fs::exists(folder)) {
    require_own(folder);
    require_replaceable(folder);
    if (fs::exists(folder / "lock")) const StateFolder held(folder);
  } else {
    folder = folder.parent_path();
    if (::access(folder.c_str(), W_OK) != 0) {
      throw InputError(fmt::format("{}: {}; make it, or choose another with --state", shown(folder), reason(errno)));
    }
  }
  require_room(folder, summary.bytes);
  return summary;
}

StateSummary restore(const RestoreRequest& request) {
  (void)check_restore(request);
  const StateFolder folder(request.state);
  require_replaceable(request.state);
  const fs::path database = folder.database();
  const fs::path staged = next_to(database, ".restoring");
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) (void)::unlink(next_to(staged, suffix).c_str());
  FileDescriptor(::open(staged.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)).reset();
  StateSummary summary;
  try {
    summary = copy_whole(request.file, Database::Opening::read_only, staged, request.unreadable, kUseAnother);
  } catch (...) {
    (void)::unlink(staged.c_str());
    throw;
  }
  set_aside(database);
  rename_file(staged, database);
  flush_directory(request.state);
  folder.clear_moved();
  return summary;
}

}  // namespace lowgear::server
