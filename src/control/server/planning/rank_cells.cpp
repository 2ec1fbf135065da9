#include "control/server/planning/rank_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "control/server/planning/json_members.h"
#include "planning/profile/stage_profile.h"

namespace lowgear {
namespace {

constexpr std::size_t kMaxCells = 100'000;
constexpr double kMaxSeconds = 1e5;
constexpr double kMaxJoules = 1e8;
constexpr const char* kFormat = "lowgear.measured_profile/1";

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
          .units = value.at("units").integer_in(1, 1 << 30),
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

void read_lists(const JsonView& body, int stages, std::vector<ProfileCell>& cells,
                std::vector<BlockingCell>& blocking) {
  const JsonView cell_list = body.at("cells");
  if (cell_list.size() > kMaxCells) cell_list.fail(fmt::format("more than {} cells", kMaxCells));
  for (std::size_t i = 0; i < cell_list.size(); ++i) cells.push_back(read_cell(cell_list.at(i), stages));
  const JsonView blocking_list = body.at("blocking");
  if (blocking_list.size() > kMaxCells) blocking_list.fail(fmt::format("more than {} stages", kMaxCells));
  for (std::size_t i = 0; i < blocking_list.size(); ++i) {
    blocking.push_back(read_blocking(blocking_list.at(i), stages));
  }
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

/// The same cell on several ranks.
class CellGroup {
 public:
  void add(int rank, const ProfileCell& cell) { by_rank_.insert_or_assign(rank, cell); }

  [[nodiscard]] ProfileCell merged() const {
    ProfileCell whole;
    double squared_errors = 0;
    for (const auto& [rank, cell] : by_rank_) {
      const long long units = whole.units + cell.units;
      const double energy_j = whole.energy_j + cell.energy_j;
      if (cell.time_s > whole.time_s) whole = cell;
      whole.units = units;
      whole.energy_j = energy_j;
      squared_errors += cell.energy_error_j * cell.energy_error_j;
    }
    const auto ranks = static_cast<double>(by_rank_.size());
    whole.energy_j /= ranks;
    whole.energy_error_j = std::sqrt(squared_errors) / ranks;
    return whole;
  }

 private:
  std::map<int, ProfileCell> by_rank_;
};

std::vector<BlockingCell> merge_blocking(std::span<const RankCells> ranks, int stages) {
  std::vector<std::vector<BlockingCell>> by_stage(static_cast<std::size_t>(stages));
  for (const RankCells& rank : ranks) {
    for (const BlockingCell& cell : rank.blocking) by_stage.at(static_cast<std::size_t>(cell.stage)).push_back(cell);
  }
  std::vector<BlockingCell> merged;
  for (int stage = 0; stage < stages; ++stage) {
    const std::vector<BlockingCell>& cells = by_stage[static_cast<std::size_t>(stage)];
    if (cells.empty()) throw InputError(fmt::format("no rank of stage {} has measured its blocking power", stage));
    BlockingCell whole{.stage = stage};
    double squared_errors = 0;
    for (const BlockingCell& cell : cells) {
      whole.power_w += cell.power_w;
      squared_errors += cell.error_w * cell.error_w;
    }
    whole.power_w /= static_cast<double>(cells.size());
    whole.error_w = std::sqrt(squared_errors) / static_cast<double>(cells.size());
    merged.push_back(whole);
  }
  return merged;
}

}  // namespace

RankCells read_rank_cells(const JsonView& body, int stages) {
  require_members(body, {"rank", "plan_version", "cells", "blocking"});
  RankCells cells;
  cells.rank = body.at("rank").integer_in(0, 1 << 30);
  cells.plan_version = body.at("plan_version").integer_in(1, 1 << 30);
  read_lists(body, stages, cells.cells, cells.blocking);
  return cells;
}

Json to_json(const RankCells& cells) {
  return {{"rank", cells.rank},
          {"plan_version", cells.plan_version},
          {"cells", cells_json(cells.cells)},
          {"blocking", blocking_json(cells.blocking)}};
}

MeasuredProfile merge_cells(std::span<const RankCells> ranks, int stages) {
  std::map<std::tuple<int, OpKind, int>, CellGroup> groups;
  for (const RankCells& rank : ranks) {
    for (const ProfileCell& cell : rank.cells) {
      groups[{cell.stage, cell.kind, -cell.clock_mhz}].add(rank.rank, cell);
    }
  }
  MeasuredProfile profile;
  for (const auto& [key, group] : groups) profile.cells.push_back(group.merged());
  profile.blocking = merge_blocking(ranks, stages);
  return profile;
}

std::string write_measured_profile(const MeasuredProfile& profile) {
  const Json document = {{"format", kFormat},
                         {"simulated", profile.simulated},
                         {"cells", cells_json(profile.cells)},
                         {"blocking", blocking_json(profile.blocking)}};
  return document.dump();
}

MeasuredProfile read_measured_profile(std::string_view text) {
  const Json document = parse_json(text, "profile");
  const JsonView view(document, "profile");
  require_format(view, kFormat);
  MeasuredProfile profile;
  profile.simulated = view.at("simulated").boolean();
  read_lists(view, kMaxStages, profile.cells, profile.blocking);
  return profile;
}

}  // namespace lowgear
