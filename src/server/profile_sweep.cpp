#include "server/profile_sweep.h"

#include <utility>

namespace lowgear {

void ProfileSweep::want(const std::vector<int>& clocks_mhz) {
  if (!clocks_mhz.empty()) ++rounds_;
  waiting_mhz_.insert(waiting_mhz_.end(), clocks_mhz.begin(), clocks_mhz.end());
}

std::optional<int> ProfileSweep::clock_mhz() const {
  return waiting_mhz_.empty() ? std::nullopt : std::optional(waiting_mhz_.front());
}

void ProfileSweep::begin(int plan_version, double now_s) {
  plan_version_ = plan_version;
  begun_s_ = now_s;
  ++attempts_;
  posted_.clear();
  for (const auto& [version, rank] : seen_) {
    if (version == plan_version) posted_.insert(rank);
  }
}

bool ProfileSweep::add(RankCells cells) {
  if (cells.plan_version < first_version_) return false;
  if (!seen_.insert({cells.plan_version, cells.rank}).second) return false;
  if (cells.plan_version == plan_version_) posted_.insert(cells.rank);
  absent_.erase(cells.rank);
  cells_.push_back(std::move(cells));
  return true;
}

void ProfileSweep::advance() {
  if (!waiting_mhz_.empty()) waiting_mhz_.erase(waiting_mhz_.begin());
  posted_.clear();
  attempts_ = 0;
}

std::size_t ProfileSweep::measured_clocks() const {
  std::set<int> clocks;
  for (const RankCells& rank : cells_) {
    for (const ProfileCell& cell : rank.cells) clocks.insert(cell.clock_mhz);
  }
  return clocks.size();
}

}  // namespace lowgear
