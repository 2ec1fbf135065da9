#include "server/job/trial_sweep.h"

#include <algorithm>

namespace lowgear::server {
namespace {

bool is_same_cell(const protocol::ProfileCell& a, const protocol::ProfileCell& b) {
  return a.stage == b.stage && a.kind == b.kind && a.clock_mhz == b.clock_mhz;
}

template <typename Cell, typename IsSame>
void put_cell(std::vector<Cell>& cells, const Cell& newer, IsSame is_same) {
  const auto known = std::ranges::find_if(cells, [&](const Cell& cell) { return is_same(cell, newer); });
  if (known == cells.end()) {
    cells.push_back(newer);
  } else {
    *known = newer;
  }
}

}  // namespace

void SweepCells::put(const protocol::RankCells& cells) {
  const auto [known, is_first] = by_rank_.try_emplace(cells.rank, cells);
  if (is_first) return;
  for (const protocol::ProfileCell& cell : cells.cells) put_cell(known->second.cells, cell, is_same_cell);
  for (const protocol::BlockingCell& cell : cells.blocking) {
    put_cell(known->second.blocking, cell, [](const auto& a, const auto& b) { return a.stage == b.stage; });
  }
}

std::vector<protocol::RankCells> SweepCells::all() const {
  std::vector<protocol::RankCells> all;
  all.reserve(by_rank_.size());
  for (const auto& [rank, cells] : by_rank_) all.push_back(cells);
  return all;
}

std::size_t SweepCells::clocks() const {
  std::set<int> clocks;
  for (const auto& [rank, posted] : by_rank_) {
    for (const protocol::ProfileCell& cell : posted.cells) clocks.insert(cell.clock_mhz);
  }
  return clocks.size();
}

std::vector<int> SweepCells::missing(const std::vector<int>& clocks_mhz) const {
  std::map<std::pair<int, OpKind>, std::set<int>> clocks_of;
  for (const auto& [rank, posted] : by_rank_) {
    for (const protocol::ProfileCell& cell : posted.cells) clocks_of[{cell.stage, cell.kind}].insert(cell.clock_mhz);
  }
  std::vector<int> missing;
  for (const int clock_mhz : clocks_mhz) {
    const bool everywhere =
        std::ranges::all_of(clocks_of, [&](const auto& cell) { return cell.second.contains(clock_mhz); });
    if (!everywhere || clocks_of.empty()) missing.push_back(clock_mhz);
  }
  return missing;
}

void TrialSweep::want(std::vector<int> clocks_mhz) {
  round_.wanted_mhz = std::move(clocks_mhz);
  round_.attempts = 0;
  ++rounds_;
}

void TrialSweep::begin(int plan_version, std::int64_t end_iteration, double now_s) {
  round_.plan_version = plan_version;
  round_.end_iteration = end_iteration;
  round_.begun_s = now_s;
  ++round_.attempts;
  if (rounds_ <= 1 || !first_round_) first_round_ = round_;
  posted_.clear();
  for (const auto& [version, rank] : seen_) {
    if (version == plan_version) posted_.insert(rank);
  }
}

bool TrialSweep::add(const protocol::RankCells& cells) {
  if (first_version_ == 0 || cells.plan_version < first_version_) return false;
  if (has_returned_ && cells.plan_version > kept_version_) return false;
  if (!seen_.insert({cells.plan_version, cells.rank}).second) return false;
  if (cells.plan_version == round_.plan_version) posted_.insert(cells.rank);
  absent_.erase(cells.rank);
  measured_.put(cells);
  if (cells.plan_version <= kept_version_) kept_.put(cells);
  return true;
}

void TrialSweep::keep() {
  kept_ = measured_;
  kept_version_ = round_.plan_version;
}

bool TrialSweep::return_to_kept() {
  if (kept_version_ == 0) return false;
  measured_ = kept_;
  has_returned_ = true;
  return true;
}

void TrialSweep::restore_kept(int kept_version, bool has_returned) {
  kept_version_ = kept_version;
  has_returned_ = has_returned;
}

}  // namespace lowgear::server
