#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "agent/journal/journal.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/files/user_database.h"

namespace lowgear::agent {
namespace {

constexpr std::size_t kMaxJournalBytes = std::size_t{16} << 20U;
constexpr const char* kFileName = "journal";
constexpr const char* kLockName = "lock";

[[noreturn]] void throw_errno(const std::filesystem::path& path, std::string_view what) {
  throw Error(fmt::format("{}: {}: {}", printable(path.string()), what, std::generic_category().message(errno)));
}

bool is_read_only(const std::filesystem::path& folder) {
  struct statvfs file_system = {};
  return ::statvfs(folder.c_str(), &file_system) == 0 && (file_system.f_flag & ST_RDONLY) != 0;
}

/// Whether something has this name, also a link that leads nowhere.
bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

/// The journal's bytes; none of one that was lost: a folder that an agent has held has one. Empty before that.
std::optional<std::string> read_journal(const std::filesystem::path& file, bool was_held) {
  if (!is_there(file)) return was_held ? std::optional(std::string()) : std::nullopt;
  require_trusted_file(file);
  return read_file(file, kMaxJournalBytes);
}

class JournalFolder final : public JournalStorage {
 public:
  JournalFolder(const std::filesystem::path& folder, const std::filesystem::path& control_socket)
      : folder_(folder), file_path_(folder / kFileName) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      throw InputError(fmt::format("{}: {}", printable(folder.string()), std::generic_category().message(errno)));
    }
    require_trusted_folder(folder);
    read_only_ = is_read_only(folder);
    was_held_ = is_there(folder / kLockName);
    hold(control_socket);
    if (is_there(file_path_)) require_trusted_file(file_path_);
  }

  [[nodiscard]] std::optional<std::string> read() override { return read_journal(file_path_, was_held_); }

  [[nodiscard]] std::string unwritable() const override {
    if (!read_only_) return {};
    return fmt::format(
        "the journal in {} is on a read-only file system: no GPU is changed until it can be written (fix the problem "
        "in the kernel's log, or mount -o remount,rw, and start the agent again)",
        printable(folder_.string()));
  }

  void replace(std::string_view bytes) override {
    const std::filesystem::path next = folder_ / "journal.new";
    const FileDescriptor file(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) throw_errno(next, "cannot be opened");
    errno = write_all(file.get(), bytes);
    if (errno != 0) throw_errno(next, "cannot be written");
    if (::fdatasync(file.get()) != 0) throw_errno(next, "cannot be flushed to the disk");
    if (::rename(next.c_str(), file_path_.c_str()) != 0) throw_errno(file_path_, "cannot be replaced");
    sync_folder();
  }

 private:
  void hold(const std::filesystem::path& control_socket) {
    const std::filesystem::path lock = folder_ / kLockName;
    // Where none can be made, the machine's lock alone keeps others away.
    if (read_only_ && !was_held_) return;
    lock_.emplace(lock);
    require_trusted_file(lock);
    if (const auto holder = lock_->take({.pid = ::getpid(), .control_socket = control_socket})) {
      throw JournalHeld(fmt::format("{}: {} uses this journal, and a machine has only one agent; end that one first",
                                    printable(folder_.string()), describe(*holder)),
                        *holder);
    }
  }

  void sync_folder() {
    const FileDescriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder || ::fsync(folder.get()) != 0) throw_errno(folder_, "cannot be flushed to the disk");
  }

  std::filesystem::path folder_;
  std::filesystem::path file_path_;
  bool read_only_ = false;
  bool was_held_ = false;  ///< by an agent before
  std::optional<LockFile> lock_;
};

class DiscardingJournal final : public JournalStorage {
 public:
  [[nodiscard]] std::optional<std::string> read() override { return std::nullopt; }
  void replace(std::string_view) override {}
};

}  // namespace

JournalContent read_journal_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kFileName;
  std::error_code error;
  (void)std::filesystem::symlink_status(file, error);
  const bool was_held = is_there(folder / kLockName);
  if (error && error != std::errc::no_such_file_or_directory) {
    throw InputError(
        fmt::format("{}: the journal cannot be inspected: {}; name the folder that `journal` in the agent's "
                    "configuration names",
                    printable(folder.string()), error.message()));
  }
  if (!is_there(file) && !was_held) {
    throw InputError(
        fmt::format("{}: there is no journal of an agent here; name the folder that `journal` in the agent's "
                    "configuration names",
                    printable(folder.string())));
  }
  require_trusted_folder(folder);
  return parse_journal(*read_journal(file, was_held));
}

std::unique_ptr<JournalStorage> discarding_journal() { return std::make_unique<DiscardingJournal>(); }

std::unique_ptr<JournalStorage> open_journal_folder(const std::filesystem::path& folder,
                                                    const std::filesystem::path& control_socket) {
  return std::make_unique<JournalFolder>(folder, control_socket);
}

}  // namespace lowgear::agent
