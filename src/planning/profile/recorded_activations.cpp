#include "planning/profile/recorded_activations.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

namespace {

constexpr std::string_view kHeader = "iteration,stage,activation_bytes\n";
constexpr long long kMostRecordedBytes = 1'000'000'000'000'000;

long long integer_in(const CsvTable& table, std::size_t row, std::size_t column, long long low, long long high) {
  const long long value = table.integer(row, column);
  if (value >= low && value <= high) return value;
  throw_input_error(table.where(row, column), fmt::format("{} is not in {} to {}", value, low, high));
}

}  // namespace

std::vector<RecordedActivations> read_recorded_activations(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  const std::size_t iteration = table.column("iteration");
  const std::size_t stage = table.column("stage");
  const std::size_t bytes = table.column("activation_bytes");
  std::vector<RecordedActivations> measured;
  std::set<std::pair<int, int>> seen;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const RecordedActivations read{.iteration = static_cast<int>(integer_in(table, row, iteration, 0, kMaxIteration)),
                                   .stage = static_cast<int>(integer_in(table, row, stage, 0, kMaxStages - 1)),
                                   .bytes = integer_in(table, row, bytes, 1, kMostRecordedBytes)};
    if (!seen.emplace(read.iteration, read.stage).second) {
      throw_input_error(table.where(row, stage),
                        fmt::format("stage {} occurs twice in iteration {}", read.stage, read.iteration));
    }
    measured.push_back(read);
  }
  return measured;
}

std::string write_recorded_activations(std::span<const RecordedActivations> measured) {
  std::string text(kHeader);
  for (const RecordedActivations& row : measured) {
    fmt::format_to(std::back_inserter(text), "{},{},{}\n", row.iteration, row.stage, row.bytes);
  }
  return text;
}

StageActivations activations_by_stage(std::span<const Recording> ranks, int stages) {
  std::vector<double> bytes(static_cast<std::size_t>(stages));
  for (const Recording& rank : ranks) {
    for (const RecordedActivations& measured : rank.activations) {
      if (measured.stage >= stages) continue;
      double& most = bytes[static_cast<std::size_t>(measured.stage)];
      most = std::max(most, static_cast<double>(measured.bytes));
    }
  }
  const auto missing = std::ranges::find(bytes, 0.0);
  if (missing == bytes.end()) return {.bytes = std::move(bytes), .warning = {}};
  if (std::ranges::all_of(bytes, [](double most) { return most == 0; })) return {};
  return {.bytes = {},
          .warning = fmt::format("the activations of stage {} were not measured, and those of others were: the profile "
                                 "has no column activation_bytes",
                                 missing - bytes.begin())};
}

}  // namespace lowgear::profile
