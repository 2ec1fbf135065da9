#include "report/usage/usage_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/numbers/number.h"

namespace lowgear::usage {

namespace {

constexpr std::size_t kYearDigits = 4;
constexpr std::string_view kForm = "0000-00";

bool has_form(std::string_view text) {
  return text.size() == kForm.size() && std::ranges::equal(text, kForm, [](char c, char form) {
           return form == '0' ? c >= '0' && c <= '9' : c == form;
         });
}

constexpr std::int64_t kDayS = 86'400;
constexpr int kFirstYear = 1970;
constexpr int kLastYear = 9998;

/// Leap days of the Gregorian calendar before the first day of a year.
std::int64_t leap_days_before(int year) { return (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400; }

bool is_leap(int year) { return leap_days_before(year + 1) > leap_days_before(year); }

/// `month` from 1 to 13: the first month of the next year.
std::int64_t begin_s(int year, int month) {
  constexpr std::array<int, 13> kDaysBefore = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
  const std::int64_t leap_days = leap_days_before(year) - leap_days_before(kFirstYear);
  const int in_year = kDaysBefore.at(static_cast<std::size_t>(month - 1)) + (month > 2 && is_leap(year) ? 1 : 0);
  return ((year - kFirstYear) * std::int64_t{365} + leap_days + in_year) * kDayS;
}

}  // namespace

Month parse_month(std::string_view text) {
  const auto refuse = [&] { throw InputError(fmt::format("{} is not a month, such as 2026-11", quote(text))); };
  if (!has_form(text)) refuse();
  const auto year = static_cast<int>(parse_integer(text.substr(0, kYearDigits)).value_or(0));
  const auto month = static_cast<int>(parse_integer(text.substr(kYearDigits + 1)).value_or(0));
  if (month < 1 || month > 12 || year < kFirstYear || year > kLastYear) refuse();
  return {.name = std::string(text), .from_s = begin_s(year, month), .to_s = begin_s(year, month + 1)};
}

namespace {

constexpr std::string_view kHeader =
    "hour_s,job,run,name,user,gpu,simulated,iterations,measured_iterations,time_s,energy_j,energy_error_j,"
    "doubtful_energy_j,baseline_time_s,baseline_energy_j,baseline_error_j\n";
/// Seconds until the year 9999.
constexpr long long kLastHourS = 253'402'300'799;

/// The energy of a few short iterations is known to no better than the steps of counters; beyond that, an error is in
/// other units, or of something else.
constexpr double kMostErrorByEnergy = 10;
constexpr double kLargestStepErrorJ = 1000;

bool is_absurd_error(double error_j, double energy_j) {
  return error_j > std::max(kLargestStepErrorJ, kMostErrorByEnergy * energy_j);
}

/// One line of a table, by the names of its columns.
class Line {
 public:
  Line(const CsvTable& table, std::size_t row) : table_(&table), row_(row) {}

  [[nodiscard]] const std::string& text(std::string_view name) const {
    return table_->text(row_, table_->column(name));
  }
  [[nodiscard]] double amount(std::string_view name) const {
    const double value = table_->number(row_, table_->column(name));
    if (value < 0) fail(name, "is negative", "give an amount of 0 or more");
    return value;
  }
  /// 0: the cell is empty.
  [[nodiscard]] double optional_amount(std::string_view name) const { return text(name).empty() ? 0 : amount(name); }
  [[nodiscard]] std::int64_t count(std::string_view name) const {
    const long long value = table_->integer(row_, table_->column(name));
    if (value < 0) fail(name, "is negative", "give a count of 0 or more");
    return value;
  }
  [[nodiscard]] bool boolean(std::string_view name) const {
    const std::string& value = text(name);
    if (value != "true" && value != "false") fail(name, "is neither true nor false", "give one of them");
    return value == "true";
  }
  [[noreturn]] void fail(std::string_view name, std::string_view what, std::string_view fix) const {
    throw_input_error(table_->where(row_, table_->column(name)), fmt::format("{} {}", name, what), std::string(fix));
  }

 private:
  const CsvTable* table_;
  std::size_t row_;
};

UsageRow read_row(const Line& line) {
  UsageRow row{.hour_s = line.count("hour_s"),
               .job = line.text("job"),
               .run = line.text("run"),
               .name = line.text("name"),
               .user = line.text("user"),
               .gpu = line.text("gpu"),
               .simulated = line.boolean("simulated"),
               .iterations = line.count("iterations"),
               .measured_iterations = line.count("measured_iterations"),
               .time_s = line.amount("time_s"),
               .energy_j = line.amount("energy_j"),
               .energy_error_j = line.amount("energy_error_j"),
               .doubtful_energy_j = line.amount("doubtful_energy_j"),
               .baseline_time_s = line.optional_amount("baseline_time_s"),
               .baseline_energy_j = line.optional_amount("baseline_energy_j"),
               .baseline_error_j = line.optional_amount("baseline_error_j")};
  if (row.hour_s % kHourS != 0 || row.hour_s > kLastHourS) {
    line.fail("hour_s", "is not the start of an hour", "give seconds since 1970, a multiple of 3600");
  }
  if (row.measured_iterations > row.iterations) {
    line.fail("measured_iterations", "is more than iterations", "give at most the value of iterations");
  }
  if (is_absurd_error(row.energy_error_j, row.energy_j)) {
    line.fail("energy_error_j", "is many times the energy itself", "give the standard error of energy_j in joules");
  }
  if (row.doubtful_energy_j > row.energy_j) {
    line.fail("doubtful_energy_j", "is more than energy_j", "give at most the value of energy_j");
  }
  if (row.has_baseline() && is_absurd_error(row.baseline_error_j, row.baseline_energy_j)) {
    line.fail("baseline_error_j", "is many times the energy itself",
              "give the standard error of baseline_energy_j in joules");
  }
  if (row.has_baseline() && (line.text("baseline_error_j").empty() || row.baseline_time_s <= 0)) {
    line.fail("baseline_energy_j", "lacks its time or its error", "give baseline_time_s and baseline_error_j, too");
  }
  return row;
}

}  // namespace

std::string_view usage_header() { return kHeader; }

std::string usage_line(const UsageRow& row) {
  const std::string baseline =
      row.has_baseline() ? fmt::format("{},{},{}", row.baseline_time_s, row.baseline_energy_j, row.baseline_error_j)
                         : ",,";
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.hour_s, csv_cell(row.job), csv_cell(row.run),
                     csv_cell(row.name), csv_cell(row.user), csv_cell(row.gpu), row.simulated, row.iterations,
                     row.measured_iterations, row.time_s, row.energy_j, row.energy_error_j, row.doubtful_energy_j,
                     baseline);
}

std::vector<UsageRow> read_usage(std::string_view text, const std::string& source) {
  std::vector<UsageRow> rows;
  CsvBlocks blocks(text, source);
  while (const auto table = blocks.next()) {
    for (std::size_t row = 0; row < table->rows(); ++row) rows.push_back(read_row(Line(*table, row)));
  }
  return rows;
}

}  // namespace lowgear::usage
