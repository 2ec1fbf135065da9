#include "server/perseus/registered_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/core/error.h"

namespace lowgear::server::perseus {
namespace {

void require_below(int value, int degree, std::string_view what) {
  if (value < degree) return;
  throw InputError(fmt::format("{} {} is out of range; the job has {}", what, value, degree));
}

}  // namespace

RegisteredRanks::RegisteredRanks(const JobInfo& job)
    : job_(job),
      ranks_(static_cast<std::size_t>(job.world_size)),
      places_(static_cast<std::size_t>(job.world_size), -1),
      stage_ranks_(static_cast<std::size_t>(job.pp_degree), -1) {}

std::size_t RegisteredRanks::place_of(const RankInfo& rank) const {
  return static_cast<std::size_t>(rank.pp_rank + job_.pp_degree * (rank.dp_rank + job_.dp_degree * rank.tp_rank));
}

bool RegisteredRanks::check(const RankInfo& rank) const {
  require_below(rank.rank, job_.world_size, "rank");
  require_below(rank.pp_rank, job_.pp_degree, "pp_rank");
  require_below(rank.dp_rank, job_.dp_degree, "dp_rank");
  require_below(rank.tp_rank, job_.tp_degree, "tp_rank");
  const std::optional<RankInfo>& same = ranks_[static_cast<std::size_t>(rank.rank)];
  if (same) {
    if (*same == rank) return true;
    throw InputError(fmt::format("rank {} has registered before, with other values", rank.rank));
  }
  const int owner = places_[place_of(rank)];
  if (owner >= 0) {
    throw InputError(fmt::format("rank {} has the pp_rank, dp_rank and tp_rank of rank {}", rank.rank, owner));
  }
  const auto registered_one = std::ranges::find_if(ranks_, [](const auto& each) { return each.has_value(); });
  if (registered_one != ranks_.end() && (*registered_one)->power_states != rank.power_states) {
    throw InputError(fmt::format("rank {} has other power states than rank {}; all have to have the same", rank.rank,
                                 (*registered_one)->rank));
  }
  const int peer = stage_ranks_[static_cast<std::size_t>(rank.pp_rank)];
  if (peer >= 0 && ranks_[static_cast<std::size_t>(peer)]->pipe_schedule != rank.pipe_schedule) {
    throw InputError(fmt::format("rank {} has another pipe_schedule than rank {}, which runs the same stage {}",
                                 rank.rank, peer, rank.pp_rank));
  }
  if (instructions_ + rank.pipe_schedule.size() > kMaxJobInstructions) {
    throw InputError("the ranks' pipe_schedules are too long all together");
  }
  return false;
}

void RegisteredRanks::add(RankInfo rank) {
  places_[place_of(rank)] = rank.rank;
  int& peer = stage_ranks_[static_cast<std::size_t>(rank.pp_rank)];
  if (peer < 0) peer = rank.rank;
  instructions_ += rank.pipe_schedule.size();
  const auto index = static_cast<std::size_t>(rank.rank);
  ranks_[index] = std::move(rank);
}

void RegisteredRanks::remove(int rank) {
  std::optional<RankInfo>& place = ranks_[static_cast<std::size_t>(rank)];
  places_[place_of(*place)] = -1;
  instructions_ -= place->pipe_schedule.size();
  int& peer = stage_ranks_[static_cast<std::size_t>(place->pp_rank)];
  const int stage = place->pp_rank;
  place.reset();
  if (peer != rank) return;
  const auto other = std::ranges::find_if(ranks_, [stage](const auto& each) { return each && each->pp_rank == stage; });
  peer = other == ranks_.end() ? -1 : (*other)->rank;
}

bool RegisteredRanks::contains(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < ranks_.size() && ranks_[index].has_value();
}

std::vector<RankInfo> RegisteredRanks::all() const {
  std::vector<RankInfo> all;
  for (const std::optional<RankInfo>& rank : ranks_) all.push_back(*rank);
  return all;
}

}  // namespace lowgear::server::perseus
