#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::usage {

/// A month of the calendar, in UTC.
struct Month {
  std::string name;         ///< `2026-11`
  std::int64_t from_s = 0;  ///< its first second, since 1970
  std::int64_t to_s = 0;    ///< that of the next month

  [[nodiscard]] bool has(std::int64_t time_s) const { return time_s >= from_s && time_s < to_s; }
};

/// `2026-11`, of the years 1970 to 9998. Throws InputError, without a place, for anything else.
[[nodiscard]] Month parse_month(std::string_view text);

/// Times of rows begin at whole hours.
inline constexpr std::int64_t kHourS = 3'600;

/// Time and energy of the iterations of one job that ended within one hour and have the same baseline. A
/// mirror of a line of usage.csv (docs/formats.md).
struct UsageRow {
  std::int64_t hour_s = 0;  ///< begin of the hour, seconds since 1970
  std::string job;
  std::string run;
  std::string name;
  std::string user;  ///< as the job states it; empty: it states none
  std::string gpu;
  bool simulated = false;  ///< on simulated GPUs
  std::int64_t iterations = 0;
  std::int64_t measured_iterations = 0;  ///< of these, those whose energy all ranks have measured
  double time_s = 0;                     ///< of all iterations
  double energy_j = 0;                   ///< of all GPUs, over the measured ones
  double energy_error_j = 0;             ///< standard error of that sum, by the meters
  double doubtful_energy_j = 0;          ///< of it, where figures are invalid or GPUs are shared with other jobs
  double baseline_time_s = 0;            ///< measured mean of an iteration at full clocks; 0: not compared
  double baseline_energy_j = 0;          ///< likewise
  double baseline_error_j = 0;           ///< standard error of that mean

  [[nodiscard]] bool has_baseline() const { return baseline_energy_j > 0; }
  friend bool operator==(const UsageRow&, const UsageRow&) = default;
};

/// The header of usage.csv, and its lines; each ends with a line feed.
[[nodiscard]] std::string_view usage_header();
[[nodiscard]] std::string usage_line(const UsageRow& row);

/// Throws InputError with file, line and column on a file that is no usage.csv: a column that is missing, a number that
/// is negative or not finite, an hour that is none, a baseline without its error.
[[nodiscard]] std::vector<UsageRow> read_usage(std::string_view text, const std::string& source);

}  // namespace lowgear::usage
