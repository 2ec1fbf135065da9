#include "protocol/rank_cells.h"

#include <fmt/format.h>

#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "protocol/json_members.h"

namespace lowgear::protocol {
namespace {

constexpr double kMaxSeconds = 1e5;
constexpr double kMaxJoules = 1e8;

OpKind read_kind(const JsonView& value) {
  const auto kind = op_kind_from_name(value.text());
  if (!kind) value.fail("expected forward, backward, input_gradient or weight_gradient");
  return *kind;
}

ProfileCell read_cell(const JsonView& value, int stages) {
  require_members(
      value, {"stage", "instruction", "clock_mhz", "units", "time_s", "time_error_s", "energy_j", "energy_error_j"});
  return {.stage = value.at("stage").integer_in(0, stages - 1),
          .kind = read_kind(value.at("instruction")),
          .clock_mhz = value.at("clock_mhz").integer_in(1, 100'000),
          .units = value.at("units").integer_in(1, kMaxCellUnits),
          .time_s = number_in(value.at("time_s"), 1e-9, kMaxSeconds),
          .time_error_s = number_in(value.at("time_error_s"), 0, kMaxSeconds),
          .energy_j = number_in(value.at("energy_j"), 1e-9, kMaxJoules),
          .energy_error_j = number_in(value.at("energy_error_j"), 0, kMaxJoules)};
}

BlockingCell read_blocking(const JsonView& value, int stages) {
  require_members(value, {"stage", "power_w", "error_w"});
  return {.stage = value.at("stage").integer_in(0, stages - 1),
          .power_w = number_in(value.at("power_w"), 0, 1e5),
          .error_w = number_in(value.at("error_w"), 0, 1e5)};
}

Json cells_json(std::span<const ProfileCell> cells) {
  Json list = Json::array();
  for (const ProfileCell& cell : cells) {
    list.push_back({{"stage", cell.stage},
                    {"instruction", name(cell.kind)},
                    {"clock_mhz", cell.clock_mhz},
                    {"units", cell.units},
                    {"time_s", cell.time_s},
                    {"time_error_s", cell.time_error_s},
                    {"energy_j", cell.energy_j},
                    {"energy_error_j", cell.energy_error_j}});
  }
  return list;
}

Json blocking_json(std::span<const BlockingCell> blocking) {
  Json list = Json::array();
  for (const BlockingCell& cell : blocking) {
    list.push_back({{"stage", cell.stage}, {"power_w", cell.power_w}, {"error_w", cell.error_w}});
  }
  return list;
}

}  // namespace

MeasuredCells read_measured_cells(const JsonView& document, int stages) {
  MeasuredCells measured;
  const JsonView cells = document.at("cells");
  if (cells.size() > kMaxCells) cells.fail(fmt::format("more than {} cells", kMaxCells));
  for (std::size_t i = 0; i < cells.size(); ++i) measured.cells.push_back(read_cell(cells.at(i), stages));
  const JsonView blocking = document.at("blocking");
  if (blocking.size() > kMaxCells) blocking.fail(fmt::format("more than {} stages", kMaxCells));
  for (std::size_t i = 0; i < blocking.size(); ++i) measured.blocking.push_back(read_blocking(blocking.at(i), stages));
  return measured;
}

profile::StageProfile stage_profile_of(std::span<const ProfileCell> cells, int stages) {
  profile::StageProfile profile(stages);
  for (const ProfileCell& cell : cells) {
    if (cell.stage >= stages) throw InputError(fmt::format("a cell of stage {} of {}", cell.stage, stages));
    profile.add(cell.stage, cell.kind, {.clock_mhz = cell.clock_mhz, .time_s = cell.time_s, .energy_j = cell.energy_j});
  }
  return profile;
}

std::vector<double> blocking_power_of(std::span<const BlockingCell> blocking, int stages) {
  std::vector<double> power_w(static_cast<std::size_t>(stages), 0);
  for (const BlockingCell& cell : blocking) {
    if (cell.stage < stages) power_w[static_cast<std::size_t>(cell.stage)] = cell.power_w;
  }
  return power_w;
}

void add_measured_cells(Json& document, std::span<const ProfileCell> cells, std::span<const BlockingCell> blocking) {
  document["cells"] = cells_json(cells);
  document["blocking"] = blocking_json(blocking);
}

RankCells read_rank_cells(const JsonView& body, int stages) {
  require_members(body, {"rank", "plan_version", "cells", "blocking"});
  RankCells cells;
  cells.rank = body.at("rank").integer_in(0, 1 << 30);
  cells.plan_version = body.at("plan_version").integer_in(1, 1 << 30);
  MeasuredCells measured = read_measured_cells(body, stages);
  cells.cells = std::move(measured.cells);
  cells.blocking = std::move(measured.blocking);
  return cells;
}

Json to_json(const RankCells& cells) {
  Json document = {{"rank", cells.rank}, {"plan_version", cells.plan_version}};
  add_measured_cells(document, cells.cells, cells.blocking);
  return document;
}

std::string write_rank_cells(const RankCells& cells) { return json_text(to_json(cells)); }

}  // namespace lowgear::protocol
