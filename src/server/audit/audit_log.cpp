#include "server/audit/audit_log.h"

#include <fmt/format.h>

#include <utility>

#include "base/core/error.h"

namespace lowgear::server {
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
