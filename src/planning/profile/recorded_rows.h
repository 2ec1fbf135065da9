#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/core/formats/csv.h"
#include "planning/profile/recording.h"

namespace lowgear::profile {

/// Largest counter value: 2^64 mJ.
inline constexpr double kMaxCounterJ = 1.9e16;
/// Seconds since 1970 that a double holds to the microsecond.
inline constexpr double kMaxUnixS = 1e10;

/// Reads cells of a table, each within bounds. Throws InputError at the cell.
class CellReader {
 public:
  explicit CellReader(const CsvTable& table) : table_(table) {}

  [[nodiscard]] int integer(std::size_t row, std::size_t column, int low, int high) const;
  [[nodiscard]] double number(std::size_t row, std::size_t column, double low, double high) const;
  [[nodiscard]] bool is_empty(std::size_t row, std::size_t column) const { return table_.text(row, column).empty(); }
  [[noreturn]] void fail(std::size_t row, std::size_t column, std::string_view what, std::string_view fix = {}) const;

 private:
  const CsvTable& table_;
};

/// Whether trainers record this instruction besides computations (as Perseus' servers name it): it is no cell of a
/// stage profile.
[[nodiscard]] bool is_other_instruction(std::string_view text);

void sort_by_time(std::vector<RecordedUnit>& units);

/// Throws InputError at a time that does not rise and at a counter that falls. `before` is the sample of the previous
/// row; `no_sample()` for the first row.
void check_order(const CsvTable& table, std::size_t row, std::size_t time_column, std::size_t energy_column,
                 const EnergySample& before, const EnergySample& sample);
[[nodiscard]] EnergySample no_sample();

}  // namespace lowgear::profile
