#include "server/http/audit_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
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
#include "base/core/formats/json.h"

namespace lowgear::server {

namespace {

std::string utc(AuditTime time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  constexpr long long kMsPerS = 1'000;
  const auto seconds = static_cast<std::time_t>(ms / kMsPerS);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), ms % kMsPerS);
}

Json head(AuditTime time, std::string_view event) {
  return {{"format", "lowgear.audit/1"}, {"time", utc(time)}, {"event", event}};
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(printable(text)); }

std::string line_of(const Json& entry) {
  return entry.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string audit_line(const AuditedRequest& request, AuditTime time) {
  Json entry = head(time, "request");
  entry["caller"] = text_or_null(request.caller);
  entry["address"] = printable(request.address);
  entry["method"] = printable(request.method);
  entry["route"] = request.route;
  entry["object"] = text_or_null(request.object);
  entry["status"] = request.status;
  entry["result"] = request.result;
  return line_of(entry);
}

std::string audit_line(const AuditedEvent& event, AuditTime time) {
  Json entry = head(time, event.event);
  entry["detail"] = printable(event.detail, 1'000);
  return line_of(entry);
}

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
  // Removes a half-written line before the next one is written.
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

namespace {

/// That wait to be written.
constexpr std::size_t kMaxWaitingLines = 20'000;
constexpr std::size_t kMaxWaitingBytes = std::size_t{16} << 20U;
constexpr std::chrono::seconds kRetry{1};

}  // namespace

AuditLog::AuditLog(AuditFileOptions options, std::function<void(std::string)> warn)
    : file_(std::move(options)), warn_(std::move(warn)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

// NOLINTNEXTLINE(bugprone-exception-escape): what cannot be written is reported, not thrown
AuditLog::~AuditLog() {
  report_suppressed(AuditTime::max());
  thread_.request_stop();
  thread_.join();
}

void AuditLog::add(const AuditedRequest& request, AuditTime time) {
  report_suppressed(time);
  if (request.is_refused() && !refusals_.admit(time)) return;
  queue(audit_line(request, time));
}

void AuditLog::add(const AuditedEvent& event, AuditTime time) {
  report_suppressed(time);
  queue(audit_line(event, time));
}

AuditLog::Statistics AuditLog::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void AuditLog::report_suppressed(AuditTime time) {
  const std::size_t count = refusals_.take_suppressed(time);
  if (count == 0) return;
  queue(audit_line(AuditedEvent{"suppressed", fmt::format("{} more requests were refused", count)},
                   std::min(time, std::chrono::system_clock::now())));
}

void AuditLog::queue(std::string line) {
  const std::lock_guard lock(mutex_);
  if (queue_.count >= kMaxWaitingLines || queue_.lines.size() + line.size() > kMaxWaitingBytes) {
    ++queue_.lost;
    ++statistics_.lost_lines;
    return;
  }
  queue_.lines += line;
  ++queue_.count;
  wake_.notify_one();
}

void AuditLog::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    (void)wake_.wait(lock, stop, [this] { return queue_.count > 0; });
    if (queue_.count == 0) return;  // asked to stop, and all is written
    Queue batch = std::exchange(queue_, Queue());
    lock.unlock();
    const bool written = write(batch);
    lock.lock();
    if (written) continue;
    give_back(std::move(batch));
    if (stop.stop_requested()) {
      warn_(fmt::format("{} lines of the audit log were not written", queue_.count + queue_.lost));
      return;
    }
    (void)wake_.wait_for(lock, stop, kRetry, [] { return false; });
  }
}

/// Writes a batch, and whether lines were lost after it.
bool AuditLog::write(const Queue& batch) {
  std::string error;
  try {
    std::string lines = batch.lines;
    if (batch.lost > 0) {
      lines += audit_line(AuditedEvent{"lost", fmt::format("{} lines could not be written", batch.lost)},
                          std::chrono::system_clock::now());
    }
    file_.append(lines);
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  const std::lock_guard lock(mutex_);
  const bool was_failing = std::exchange(statistics_.failing, !error.empty());
  if (error.empty()) {
    statistics_.written_lines += batch.count;
    if (was_failing) warn_("the audit log is written again");
    return true;
  }
  if (!was_failing) warn_(fmt::format("the audit log cannot be written, its lines wait: {}", error));
  return false;
}

/// The lines of a batch that could not be written, before those that came meanwhile.
void AuditLog::give_back(Queue batch) {
  batch.lines += queue_.lines;
  batch.count += queue_.count;
  batch.lost += queue_.lost;
  queue_ = std::move(batch);
}

}  // namespace lowgear::server
