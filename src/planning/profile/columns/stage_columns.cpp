#include "planning/profile/columns/stage_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

namespace {

constexpr std::string_view kActivations = "activation_bytes";
constexpr std::string_view kTransfer = "transfer";
constexpr double kMostBytes = 1e15;
constexpr double kMostTransferS = 1000;
/// Of a forward: pipelines hide messages behind what they compute.
constexpr double kMostTransferByForward = 10;

std::size_t stage_at(const CsvTable& table, std::size_t row, std::size_t column) {
  const double stage = table.number(row, column);
  if (stage >= 0 && stage < kMaxStages && std::floor(stage) == stage) return static_cast<std::size_t>(stage);
  throw_input_error(table.where(row, column), fmt::format("{} is no stage", stage),
                    fmt::format("write a whole number from 0 to {}", kMaxStages - 1));
}

std::vector<double> read_activations(const CsvTable& table) {
  std::vector<double> bytes;
  if (!table.has_column(kActivations)) return bytes;
  const std::size_t column = table.column(kActivations);
  const std::size_t stage_column = table.column("stage");
  std::size_t stages = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::size_t stage = stage_at(table, row, stage_column);
    stages = std::max(stages, stage + 1);
    if (table.text(row, column).empty()) continue;
    const double value = table.number(row, column);
    if (!(value > 0 && value <= kMostBytes)) {
      throw_input_error(table.where(row, column), fmt::format("{} is no number of bytes", value),
                        "write those of one microbatch's activations on a GPU, or leave the cell empty");
    }
    bytes.resize(std::max(bytes.size(), stage + 1));
    bytes[stage] = std::max(bytes[stage], value);
  }
  if (bytes.empty()) return bytes;
  bytes.resize(stages);
  const auto missing = std::ranges::find(bytes, 0.0);
  if (missing == bytes.end()) return bytes;
  throw_input_error({table.source(), 0, 0},
                    fmt::format("stage {} has no {}, and others do", missing - bytes.begin(), kActivations),
                    "state it for every stage, or for none");
}

std::vector<double> read_transfer(const CsvTable& table) {
  if (!table.has_column(kTransfer)) return {};
  const std::size_t column = table.column(kTransfer);
  const std::size_t stage_column = table.column("stage");
  std::vector<std::optional<double>> longest_s;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::size_t stage = stage_at(table, row, stage_column);
    longest_s.resize(std::max(longest_s.size(), stage + 1));
    if (table.text(row, column).empty()) continue;
    const double value_s = table.number(row, column);
    if (!(value_s >= 0 && value_s <= kMostTransferS)) {
      throw_input_error(table.where(row, column),
                        fmt::format("a transfer of {} s is not in 0 to {}", value_s, kMostTransferS),
                        "measure it again or leave the cell empty");
    }
    longest_s[stage] = std::max(longest_s[stage].value_or(0), value_s);
  }
  const bool stated = std::ranges::any_of(longest_s, [](const auto& one) { return one.has_value(); });
  std::vector<double> transfer_s;
  for (std::size_t stage = 0; stated && stage + 1 < longest_s.size(); ++stage) {  // the last one has no next one
    if (!longest_s[stage]) {
      throw_input_error({table.source(), 0, 0}, fmt::format("stage {} has no {}, and others do", stage, kTransfer),
                        "state it for every stage but the last, or for none");
    }
    transfer_s.push_back(*longest_s[stage]);
  }
  return transfer_s;
}

/// The cells of a row that begins with the number of its stage.
std::string cells_of(std::string_view row, const StageColumns& columns) {
  std::string cells;
  std::size_t stage = 0;
  std::from_chars(row.data(), row.data() + row.size(), stage);
  if (!columns.activation_bytes.empty()) cells += fmt::format(",{}", columns.activation_bytes.at(stage));
  if (columns.transfer_s.empty()) return cells;
  cells += stage < columns.transfer_s.size() ? fmt::format(",{}", columns.transfer_s[stage]) : ",";
  return cells;
}

}  // namespace

StageColumns read_stage_columns(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  return {.activation_bytes = read_activations(table), .transfer_s = read_transfer(table)};
}

std::optional<std::string> transfer_doubt(const StageColumns& columns, const StageProfile& profile,
                                          const std::string& source) {
  for (std::size_t stage = 0; stage < columns.transfer_s.size(); ++stage) {
    const double transfer_s = columns.transfer_s[stage];
    const auto forwards = profile.measurements(static_cast<int>(stage), OpKind::forward);
    if (forwards.empty() || transfer_s <= kMostTransferByForward * forwards.front().time_s) continue;
    return fmt::format("{}: a transfer of stage {} takes {:.4g} s, and its forward {:.4g} s: give seconds", source,
                       stage, transfer_s, forwards.front().time_s);
  }
  return std::nullopt;
}

std::string with_stage_columns(const std::string& profile_csv, const StageColumns& columns) {
  std::string text;
  for (std::size_t begin = 0; begin < profile_csv.size();) {
    const std::size_t end = std::min(profile_csv.find('\n', begin), profile_csv.size());
    const std::string_view row = std::string_view(profile_csv).substr(begin, end - begin);
    text += row;
    if (begin > 0) {
      text += cells_of(row, columns);
    } else {
      if (!columns.activation_bytes.empty()) text.append(",").append(kActivations);
      if (!columns.transfer_s.empty()) text.append(",").append(kTransfer);
    }
    text += '\n';
    begin = end + 1;
  }
  return text;
}

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
