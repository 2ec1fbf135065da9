#include "control/server/parts/trial_sweep.h"

#include <algorithm>
#include <utility>

namespace lowgear::server {
namespace {

bool is_same(const protocol::ProfileCell& a, const protocol::ProfileCell& b) {
  return a.stage == b.stage && a.kind == b.kind && a.clock_mhz == b.clock_mhz;
}

template <typename Cell, typename IsSame>
void put(std::vector<Cell>& cells, const Cell& newer, IsSame is_same_cell) {
  const auto known = std::ranges::find_if(cells, [&](const Cell& cell) { return is_same_cell(cell, newer); });
  if (known == cells.end()) {
    cells.push_back(newer);
  } else {
    *known = newer;
  }
}

}  // namespace

void TrialSweep::want(std::vector<int> clocks_mhz) {
  wanted_mhz_ = std::move(clocks_mhz);
  ++rounds_;
  attempts_ = 0;
}

void TrialSweep::begin(int plan_version, std::int64_t end_iteration, double now_s) {
  plan_version_ = plan_version;
  end_iteration_ = end_iteration;
  begun_s_ = now_s;
  ++attempts_;
  posted_.clear();
  for (const auto& [version, rank] : seen_) {
    if (version == plan_version) posted_.insert(rank);
  }
}

bool TrialSweep::add(protocol::RankCells cells) {
  if (first_version_ == 0 || cells.plan_version < first_version_) return false;
  if (!seen_.insert({cells.plan_version, cells.rank}).second) return false;
  if (cells.plan_version == plan_version_) posted_.insert(cells.rank);
  absent_.erase(cells.rank);
  const auto [known, is_first] = by_rank_.try_emplace(cells.rank, cells);
  if (is_first) return true;
  for (const protocol::ProfileCell& cell : cells.cells) put(known->second.cells, cell, is_same);
  for (const protocol::BlockingCell& cell : cells.blocking) {
    put(known->second.blocking, cell, [](const auto& a, const auto& b) { return a.stage == b.stage; });
  }
  return true;
}

std::vector<protocol::RankCells> TrialSweep::cells() const {
  std::vector<protocol::RankCells> all;
  all.reserve(by_rank_.size());
  for (const auto& [rank, cells] : by_rank_) all.push_back(cells);
  return all;
}

std::size_t TrialSweep::measured_clocks() const {
  std::set<int> clocks;
  for (const auto& [rank, posted] : by_rank_) {
    for (const protocol::ProfileCell& cell : posted.cells) clocks.insert(cell.clock_mhz);
  }
  return clocks.size();
}

std::vector<int> TrialSweep::unmeasured_mhz() const {
  std::map<std::pair<int, OpKind>, std::set<int>> clocks_of;
  for (const auto& [rank, posted] : by_rank_) {
    for (const protocol::ProfileCell& cell : posted.cells) clocks_of[{cell.stage, cell.kind}].insert(cell.clock_mhz);
  }
  std::vector<int> unmeasured;
  for (const int clock_mhz : wanted_mhz_) {
    const bool everywhere =
        std::ranges::all_of(clocks_of, [&](const auto& cell) { return cell.second.contains(clock_mhz); });
    if (!everywhere || clocks_of.empty()) unmeasured.push_back(clock_mhz);
  }
  return unmeasured;
}

}  // namespace lowgear::server
