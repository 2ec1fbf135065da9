#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/core/files/file_descriptor.h"

namespace lowgear::server {

/// A request that changed something, or was refused.
struct AuditedRequest {
  std::string caller;   ///< `token trainers`, `user 1000`; empty: not known
  std::string address;  ///< `192.0.2.7`, `unix user 1000`
  std::string_view method;
  std::string_view route;  ///< `/v1/jobs/{}/power_cap`
  std::string object;      ///< that the route changes: a job's id, a budget's name; empty: none
  int status = 0;          ///< of HTTP
  std::string result;      ///< `ok`, or the code of the error

  [[nodiscard]] bool is_refused() const { return status >= 400; }
};

/// Another event that concerns access, such as a token file that was read again.
struct AuditedEvent {
  std::string_view event;  ///< `started`, `tokens`, `certificate`, `stopped`, `suppressed`, `lost`
  std::string detail;      ///< one line; never a secret
};

using AuditTime = std::chrono::system_clock::time_point;

/// A line of the audit log (docs/formats.md), with its line feed. Text of clients is cut to 200 characters.
[[nodiscard]] std::string audit_line(const AuditedRequest& request, AuditTime time);
[[nodiscard]] std::string audit_line(const AuditedEvent& event, AuditTime time);

struct AuditFileOptions {
  std::filesystem::path path;
  std::size_t max_bytes = std::size_t{64} << 20U;  ///< of a file, before it becomes an older one
  int files = 8;                                   ///< that are kept, the present one included
};

/// A file of lines that is only appended to, with a limit: when it is full it becomes `PATH.1`, and older ones
/// `PATH.2` and so on. Another program may move it away (logrotate): the next line goes to a new file. Not thread-safe.
class AuditFile {
 public:
  /// Opens the file, which only its owner may read; makes it if it is not there. Throws InputError when it cannot, or
  /// others could have changed it.
  explicit AuditFile(AuditFileOptions options);

  /// Whether the constructor could open it; makes nothing. Throws InputError as that does.
  static void check(const std::filesystem::path& path);

  /// Writes whole lines, and returns when they are on disk. Throws Error when that fails; nothing of them is in the
  /// file then, as far as the disk allows that to be undone.
  void append(std::string_view lines);

 private:
  void open();
  void reopen_if_moved();
  void rotate();
  [[nodiscard]] std::filesystem::path older(int number) const;

  AuditFileOptions options_;
  FileDescriptor file_;
  std::size_t bytes_ = 0;
};

/// Limits the refused requests that are written one by one to the first ones of each second.
class RefusalLimit {
 public:
  static constexpr std::size_t kPerSecond = 50;

  /// Returns whether to write this one; otherwise counts it.
  [[nodiscard]] bool admit(std::chrono::system_clock::time_point time) {
    const auto second = std::chrono::floor<std::chrono::seconds>(time);
    if (second != second_) admitted_ = 0;
    second_ = second;
    if (admitted_ < kPerSecond) {
      ++admitted_;
      return true;
    }
    ++suppressed_;
    return false;
  }

  /// Returns, once, the number of requests that were not written, after the second in which they came; else 0.
  [[nodiscard]] std::size_t take_suppressed(std::chrono::system_clock::time_point time) {
    if (std::chrono::floor<std::chrono::seconds>(time) == second_) return 0;
    return std::exchange(suppressed_, 0);
  }

 private:
  std::chrono::sys_seconds second_{};
  std::size_t admitted_ = 0;
  std::size_t suppressed_ = 0;
};

/// Keeps the audit log. A thread of its own writes, so that a slow disk delays no request; lines that it cannot write
/// wait in memory, up to a limit. Entries beyond it are counted, and a line states their number as soon as one can be
/// written.
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

  /// Of refusals (a status from 400 on), RefusalLimit::kPerSecond are written a second, and the number of the others: a
  /// refused caller does not decide how much is written.
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
