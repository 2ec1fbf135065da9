#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/files/trusted_path.h"
#include "base/core/files/write_all.h"
#include "control/agent/journal/journal.h"

namespace lowgear::agent {
namespace {

constexpr std::size_t kMaxJournalBytes = std::size_t{16} << 20U;
constexpr const char* kFileName = "journal";

[[noreturn]] void throw_errno(const std::filesystem::path& path, std::string_view what) {
  throw Error(fmt::format("{}: {}: {}", printable(path.string()), what, std::generic_category().message(errno)));
}

bool is_read_only(const std::filesystem::path& folder) {
  struct statvfs file_system = {};
  return ::statvfs(folder.c_str(), &file_system) == 0 && (file_system.f_flag & ST_RDONLY) != 0;
}

FileDescriptor open_trusted(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) throw InputError(fmt::format("{}: {}", printable(path.string()), std::generic_category().message(errno)));
  require_trusted_file(path);
  return file;
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
    hold(control_socket);
    if (read_only_) {
      if (has_file()) require_trusted_file(file_path_);
      return;
    }
    open_file();
    sync_folder();
  }

  [[nodiscard]] std::string read() override {
    return read_only_ && !has_file() ? std::string() : read_file(file_path_, kMaxJournalBytes);
  }

  [[nodiscard]] std::string unwritable() const override {
    if (!read_only_) return {};
    return fmt::format(
        "the journal in {} is on a read-only file system: no GPU is changed until it can be written (fix the problem "
        "in the kernel's log, or mount -o remount,rw, and start the agent again)",
        printable(folder_.string()));
  }

  void append(std::string_view bytes) override {
    if (write_all(file_.get(), bytes) != 0) throw_errno(file_path_, "cannot be written");
  }

  void sync() override {
    if (::fdatasync(file_.get()) != 0) throw_errno(file_path_, "cannot be flushed to the disk");
  }

  void truncate(std::size_t bytes) override {
    if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) throw_errno(file_path_, "cannot be truncated");
  }

  void replace(std::string_view bytes) override {
    write_file_atomically(file_path_, bytes);
    open_file();
    sync_folder();
  }

 private:
  void hold(const std::filesystem::path& control_socket) {
    const std::filesystem::path lock = folder_ / "lock";
    // Where none can be made, the machine's lock alone keeps others away.
    if (read_only_ && !std::filesystem::exists(std::filesystem::symlink_status(lock))) return;
    lock_.emplace(lock);
    require_trusted_file(lock);
    if (const auto holder = lock_->take({.pid = ::getpid(), .control_socket = control_socket})) {
      throw JournalHeld(fmt::format("{}: {} uses this journal, and a machine has only one agent; end that one first",
                                    printable(folder_.string()), describe(*holder)),
                        *holder);
    }
  }

  [[nodiscard]] bool has_file() const {
    std::error_code error;
    return std::filesystem::exists(std::filesystem::symlink_status(file_path_, error));
  }

  void open_file() { file_ = open_trusted(file_path_); }

  void sync_folder() {
    const FileDescriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder || ::fsync(folder.get()) != 0) throw_errno(folder_, "cannot be flushed to the disk");
  }

  std::filesystem::path folder_;
  std::filesystem::path file_path_;
  bool read_only_ = false;
  std::optional<LockFile> lock_;
  FileDescriptor file_;  ///< none where it can only be read
};

class DiscardingJournal final : public JournalStorage {
 public:
  [[nodiscard]] std::string read() override { return {}; }
  void append(std::string_view) override {}
  void sync() override {}
  void truncate(std::size_t) override {}
  void replace(std::string_view) override {}
};

}  // namespace

JournalContent read_journal_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kFileName;
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, error))) {
    const bool absent = !error || error == std::errc::no_such_file_or_directory;
    throw InputError(fmt::format(
        "{}: {}; name the folder that `journal` in the agent's configuration names", printable(folder.string()),
        absent ? "there is no journal of an agent here" : "the journal cannot be inspected: " + error.message()));
  }
  require_trusted_folder(folder);
  require_trusted_file(file);
  return parse_journal(read_file(file, kMaxJournalBytes));
}

std::unique_ptr<JournalStorage> discarding_journal() { return std::make_unique<DiscardingJournal>(); }

std::unique_ptr<JournalStorage> open_journal_folder(const std::filesystem::path& folder,
                                                    const std::filesystem::path& control_socket) {
  return std::make_unique<JournalFolder>(folder, control_socket);
}

}  // namespace lowgear::agent
