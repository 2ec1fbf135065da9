#include "server/parts/rank_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "base/core/error.h"
#include "server/store/secret.h"

namespace lowgear::server {

std::string gpu_key(const protocol::RankSpec& spec) {
  return spec.simulated && !spec.gpu_uuid.empty() ? spec.host + '/' + spec.gpu_uuid : spec.gpu_uuid;
}

RankRegistry::RankRegistry(const protocol::JobParallel& parallel)
    : parallel_(parallel),
      ranks_(static_cast<std::size_t>(parallel.world_size())),
      place_taken_(static_cast<std::size_t>(parallel.world_size()), false) {}

std::size_t RankRegistry::place(const protocol::RankSpec& rank) const {
  const int place = (rank.pp_rank * parallel_.dp + rank.dp_rank) * parallel_.tp + rank.tp_rank;
  return static_cast<std::size_t>(place);
}

RankRegistration RankRegistry::add(const protocol::RankSpec& rank, std::string key, double now_s) {
  std::optional<RegisteredRank>& slot = ranks_.at(static_cast<std::size_t>(rank.rank));
  if (slot && slot->spec.instance != rank.instance) return {RankRegistration::Outcome::taken, {}};
  const bool is_same = slot && place(slot->spec) == place(rank) && slot->spec.host == rank.host &&
                       gpu_key(slot->spec) == gpu_key(rank) && slot->spec.simulated == rank.simulated;
  if (slot && !is_same) return {RankRegistration::Outcome::moved, {}};
  if (slot) {
    slot->heard_s = now_s;
    return {RankRegistration::Outcome::known, slot->key};
  }
  if (place_taken_[place(rank)]) {
    throw InputError(fmt::format("$: another rank has registered as pp_rank {}, dp_rank {}, tp_rank {}", rank.pp_rank,
                                 rank.dp_rank, rank.tp_rank));
  }
  slot.emplace(RegisteredRank{
      .spec = rank, .key = std::move(key), .gpu = {}, .last = {}, .heard_s = now_s, .registered_s = now_s});
  if (const std::string gpu = gpu_key(rank); !gpu.empty()) {
    std::vector<int>& ranks = ranks_of_gpu_[gpu];
    ranks.insert(std::ranges::upper_bound(ranks, rank.rank), rank.rank);
  }
  place_taken_[place(rank)] = true;
  ++registered_;
  return {RankRegistration::Outcome::created, slot->key};
}

RegisteredRank* RankRegistry::find(int rank) {
  return const_cast<RegisteredRank*>(std::as_const(*this).find(rank));  // the answer is of our own table
}

const RegisteredRank* RankRegistry::find(int rank) const {
  if (rank < 0 || rank >= size()) return nullptr;
  const auto& slot = ranks_[static_cast<std::size_t>(rank)];
  return slot ? &*slot : nullptr;
}

bool RankRegistry::owns(int rank, std::string_view key) const {
  const RegisteredRank* registered = find(rank);
  return registered != nullptr && same_secret(key, registered->key);
}

bool RankRegistry::has_process(std::string_view instance) const {
  return !instance.empty() && std::ranges::any_of(ranks_, [&](const std::optional<RegisteredRank>& rank) {
    return rank && !rank->finished && rank->spec.instance == instance;
  });
}

bool RankRegistry::finish(int rank) {
  RegisteredRank* registered = find(rank);
  if (registered == nullptr || registered->finished) return false;
  registered->finished = true;
  ++finished_;
  return true;
}

bool RankRegistry::simulated() const {
  return std::ranges::any_of(ranks_, [](const auto& rank) { return rank && rank->spec.simulated; });
}

const std::vector<int>& RankRegistry::with_gpu_of(int rank) const {
  static const std::vector<int> kNone;
  const RegisteredRank* registered = find(rank);
  if (registered == nullptr) return kNone;
  const auto ranks = ranks_of_gpu_.find(gpu_key(registered->spec));
  return ranks == ranks_of_gpu_.end() ? kNone : ranks->second;
}

bool RankRegistry::counts_elsewhere(int rank) const {
  const std::vector<int>& ranks = with_gpu_of(rank);
  return !ranks.empty() && ranks.front() != rank;
}

bool RankRegistry::shares_with_other_jobs() const {
  return std::ranges::any_of(ranks_, [](const auto& rank) { return rank && rank->shared; });
}

std::size_t RankRegistry::followers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(ranks_, [](const auto& rank) { return rank && rank->follows_plans(); }));
}

std::vector<int> RankRegistry::common_clocks() const {
  std::vector<bool> followed(static_cast<std::size_t>(parallel_.pp), false);
  std::optional<std::vector<int>> common;
  for (const auto& rank : ranks_) {
    if (!rank || !rank->spec.follows_plans) continue;
    followed[static_cast<std::size_t>(rank->spec.pp_rank)] = true;
    if (!common) {
      common = rank->spec.clocks_mhz;
    } else if (*common != rank->spec.clocks_mhz) {
      std::vector<int> both;
      std::ranges::set_intersection(*common, rank->spec.clocks_mhz, std::back_inserter(both), std::greater<>());
      common = std::move(both);
    }
  }
  const bool everywhere = std::ranges::all_of(followed, [](bool has_rank) { return has_rank; });
  return common && everywhere ? *common : std::vector<int>();
}

std::vector<std::vector<int>> RankRegistry::hosts() const {
  std::vector<std::vector<int>> hosts(static_cast<std::size_t>(parallel_.dp),
                                      std::vector<int>(static_cast<std::size_t>(parallel_.pp), 0));
  std::map<std::string, int> numbers;
  for (const auto& rank : ranks_) {
    if (!rank || rank->spec.tp_rank != 0) continue;
    const int number = numbers.try_emplace(rank->spec.host, static_cast<int>(numbers.size())).first->second;
    hosts[static_cast<std::size_t>(rank->spec.dp_rank)][static_cast<std::size_t>(rank->spec.pp_rank)] = number;
  }
  return hosts;
}

}  // namespace lowgear::server
