#include "planning/profile/predicted_rows.h"

#include <algorithm>
#include <map>

namespace lowgear::profile {
namespace {

/// Errors as shares of time and energy.
struct ErrorShares {
  double time = 0;
  double energy = 0;
};

std::map<CellKey, PredictedRow> by_cell(std::span<const PredictedRow> predicted) {
  std::map<CellKey, PredictedRow> rows;
  for (const PredictedRow& row : predicted) rows.emplace(row.cell, row);
  return rows;
}

}  // namespace

std::vector<PredictedRow> predicted_rows_of(const StageProfile& given, std::span<const PredictedRow> predicted,
                                            const StageProfile& derived) {
  std::vector<PredictedRow> rows;
  if (predicted.empty()) return rows;
  std::map<int, ErrorShares> by_clock;
  for (const PredictedRow& row : predicted) {
    const auto& [stage, kind, clock_mhz] = row.cell;
    const Measurement& value = given.at_clock(stage, kind, clock_mhz);
    ErrorShares& largest = by_clock[clock_mhz];
    largest.time = std::max(largest.time, row.time_error_s / value.time_s);
    largest.energy = std::max(largest.energy, row.energy_error_j / value.energy_j);
  }
  const std::map<CellKey, PredictedRow> cells = by_cell(predicted);
  for (const StageOp& op : derived.ops()) {
    for (const Measurement& value : op.measurements) {
      const CellKey cell = {op.stage, op.kind, value.clock_mhz};
      const Measurement* same =
          op.stage < given.stages() ? given.find(op.stage, op.kind, value.clock_mhz, value.setting) : nullptr;
      if (same != nullptr && *same == value) {
        if (const auto row = cells.find(cell); row != cells.end()) rows.push_back(row->second);
      } else if (const auto share = by_clock.find(value.clock_mhz); share != by_clock.end()) {
        rows.push_back({cell, share->second.time * value.time_s, share->second.energy * value.energy_j});
      }
    }
  }
  return rows;
}

StageProfile moved_by_errors(const StageProfile& profile, std::span<const PredictedRow> predicted, double errors) {
  constexpr double kLeast = 0.01;  // of a value, whatever its error
  const std::map<CellKey, PredictedRow> cells = by_cell(predicted);
  StageProfile moved(profile.stages());
  for (const StageOp& op : profile.ops()) {
    for (Measurement value : op.measurements) {
      if (const auto row = cells.find({op.stage, op.kind, value.clock_mhz}); row != cells.end()) {
        value.time_s = std::max(kLeast * value.time_s, value.time_s + errors * row->second.time_error_s);
        value.energy_j = std::max(kLeast * value.energy_j, value.energy_j + errors * row->second.energy_error_j);
      }
      moved.add(op.stage, op.kind, value);
    }
  }
  return moved;
}

}  // namespace lowgear::profile
