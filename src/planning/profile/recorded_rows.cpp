#include "planning/profile/recorded_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/core/error.h"

namespace lowgear::profile {
namespace {

constexpr std::array<std::string_view, 8> kOtherInstructions = {"load", "p2p",  "cc",    "step",
                                                                "low",  "high", "other", "batch_input"};

}  // namespace

int CellReader::integer(std::size_t row, std::size_t column, int low, int high) const {
  const long long value = table_.integer(row, column);
  if (value < low || value > high) fail(row, column, fmt::format("{} is not in {} to {}", value, low, high));
  return static_cast<int>(value);
}

double CellReader::number(std::size_t row, std::size_t column, double low, double high) const {
  const double value = table_.number(row, column);
  if (!(value >= low && value <= high)) fail(row, column, fmt::format("{} is not in {} to {}", value, low, high));
  return value;
}

void CellReader::fail(std::size_t row, std::size_t column, std::string_view what, std::string_view fix) const {
  throw_input_error(table_.where(row, column), what, fix);
}

bool is_other_instruction(std::string_view text) {
  return std::ranges::find(kOtherInstructions, text) != kOtherInstructions.end();
}

void sort_by_time(std::vector<RecordedUnit>& units) {
  std::ranges::sort(units, [](const RecordedUnit& a, const RecordedUnit& b) {
    return std::tie(a.start_s, a.end_s, a.stage, a.kind, a.microbatch, a.iteration) <
           std::tie(b.start_s, b.end_s, b.stage, b.kind, b.microbatch, b.iteration);
  });
}

void check_order(const CsvTable& table, std::size_t row, std::size_t time_column, std::size_t energy_column,
                 const EnergySample& before, const EnergySample& sample) {
  const CellReader cells(table);
  if (sample.time_s <= before.time_s) {
    cells.fail(row, time_column, fmt::format("{} is not after the sample before it", sample.time_s));
  }
  if (before.energy_j && sample.energy_j && *sample.energy_j < *before.energy_j) {
    cells.fail(row, energy_column, "the energy counter falls", "the driver was reloaded: record again");
  }
}

EnergySample no_sample() {
  EnergySample sample;
  sample.time_s = -1;
  return sample;
}

}  // namespace lowgear::profile
