#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "server/audit/audit_entry.h"
#include "server/audit/audit_file.h"
#include "server/audit/refusal_limit.h"

namespace lowgear::server {

/// Keeps the audit log. A thread of its own writes, so that a slow disk delays no request; lines that it cannot write
/// wait in memory, up to a limit. What is lost beyond it is counted, and a line says so as soon as one can be written.
class AuditLog {
 public:
  struct Statistics {
    std::uint64_t written_lines = 0;
    std::uint64_t lost_lines = 0;
    bool failing = false;
  };

  /// `warn` is called from the thread: once when writing begins to fail, and once when it works again. Throws as
  /// AuditFile.
  AuditLog(AuditFileOptions options, std::function<void(std::string)> warn);
  /// Writes what waits, with one attempt.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// Of refusals (a status from 400 on), so many of one second are written, and of the others their number: who is
  /// refused does not decide how much is written.
  void add(const AuditedRequest& request, AuditTime time = std::chrono::system_clock::now());
  void add(const AuditedEvent& event, AuditTime time = std::chrono::system_clock::now());

  [[nodiscard]] Statistics statistics() const;

 private:
  struct Queue {
    std::string lines;
    std::size_t count = 0;
    std::size_t lost = 0;  ///< since a line said so last
  };
  void queue(std::string line);
  void report_suppressed(AuditTime time);
  void run(const std::stop_token& stop);
  [[nodiscard]] bool write(const Queue& batch);
  void give_back(Queue batch);

  AuditFile file_;  ///< of the thread
  std::function<void(std::string)> warn_;
  RefusalLimit refusals_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  Queue queue_;
  Statistics statistics_;
  std::jthread thread_;  ///< last: it uses everything above
};

}  // namespace lowgear::server
