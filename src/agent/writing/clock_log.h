#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace lowgear::agent {

/// Nanoseconds since 1970.
[[nodiscard]] std::int64_t wall_clock_ns();

/// The SM clocks that one GPU was locked to, as Perseus' client logs them: `freq,start,end` in MHz and nanoseconds
/// since 1970, from the return of the driver's call that set the clock to the call that set the next one. What lies
/// between the end of a row and the start of the next is the call. Writes a few kilobytes at once, and the rest when
/// the clocks are restored. A file that cannot be written is reported once and is then left alone. For one thread.
class ClockLog {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20U;

  /// Appends to the file; one of more than `max_bytes` becomes FILE.old, which replaces an earlier one.
  ClockLog(std::filesystem::path file, std::function<void(const std::string& problem)> warn,
           std::size_t max_bytes = kMaxBytes);
  ClockLog(const ClockLog&) = delete;
  ClockLog& operator=(const ClockLog&) = delete;
  ~ClockLog() { ended(wall_clock_ns()); }

  /// The driver was asked for a clock, and returned.
  void set(int clock_mhz, std::int64_t asked_ns, std::int64_t returned_ns);
  /// The clock is the driver's own choice again, from a call at this time on.
  void ended(std::int64_t asked_ns);

 private:
  void close_row(std::int64_t end_ns);
  void flush();

  std::filesystem::path file_;
  std::function<void(const std::string& problem)> warn_;
  std::size_t max_bytes_;
  std::string lines_;  ///< that wait to be written
  std::optional<int> clock_mhz_;
  std::int64_t start_ns_ = 0;
  bool failed_ = false;
};

}  // namespace lowgear::agent
