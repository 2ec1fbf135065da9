#include "server/job/rank_registry.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "server/job/job_record.h"

namespace lowgear::server {

std::string new_secret() {
  std::array<unsigned char, 16> bytes{};
  // So few bytes come whole or, before the kernel has gathered enough at boot, after a while.
  ssize_t size = -1;
  do {
    size = ::getrandom(bytes.data(), bytes.size(), 0);
  } while (size < 0 && errno == EINTR);
  if (size != static_cast<ssize_t>(bytes.size())) {
    throw Error(fmt::format("no random bits: {}", std::generic_category().message(errno)));
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

bool same_secret(std::string_view given, std::string_view expected) {
  // Volatile, so that the compiler cannot leave the loop early. An empty secret matches nothing.
  volatile unsigned char difference = given.size() == expected.size() && !expected.empty() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = expected.empty() ? '\0' : expected[i % expected.size()];
    difference = static_cast<unsigned char>(difference | static_cast<unsigned char>(given[i] ^ other));
  }
  return difference == 0;
}

std::string gpu_key(const protocol::RankSpec& spec) {
  return spec.simulated && !spec.gpu_uuid.empty() ? spec.host + '/' + spec.gpu_uuid : spec.gpu_uuid;
}

std::string text_of_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  return fmt::format("rank {} and {} {}", ranks.front(), ranks.size() - 1, ranks.size() == 2 ? "other" : "others");
}

namespace {

/// Kinds of failure that are named.
constexpr std::size_t kShownFailures = 4;

}  // namespace

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

bool RankRegistry::finish(int rank, std::string failure) {
  RegisteredRank* registered = find(rank);
  if (registered == nullptr || registered->finished) return false;
  registered->finished = true;
  registered->failure = std::move(failure);
  if (!registered->failure.empty()) registered->failure_number = ++failures_;
  ++finished_;
  return true;
}

void RankRegistry::restore_failure(int rank, std::string failure, int number) {
  if (!finish(rank, std::move(failure))) return;
  find(rank)->failure_number = number;
  failures_ = std::max(failures_, number);
}

std::string RankRegistry::text_of_failures() const {
  std::vector<const RegisteredRank*> failed;
  for (const auto& rank : ranks_) {
    if (rank && !rank->failure.empty()) failed.push_back(&*rank);
  }
  std::ranges::stable_sort(failed, {}, &RegisteredRank::failure_number);
  std::vector<std::vector<int>> groups;  // that failed in the same way, the first one first
  for (const RegisteredRank* rank : failed) {
    const auto same = std::ranges::find_if(
        groups, [&](const std::vector<int>& group) { return find(group.front())->failure == rank->failure; });
    if (same == groups.end()) {
      groups.push_back({rank->spec.rank});
    } else {
      same->push_back(rank->spec.rank);
    }
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), kShownFailures); ++i) {
    const std::string& failure = find(groups[i].front())->failure;
    // Of a process that was killed its launcher speaks after the ranks that lost it.
    const bool is_late_word = failure.starts_with(protocol::kNoWordOfRank);
    if (is_late_word) std::ranges::sort(groups[i]);  // in whatever order it speaks
    text += fmt::format("{}{}{} ({})",
                        i == 0         ? ""
                        : is_late_word ? "; perhaps before, "
                                       : ", then ",
                        text_of_ranks(groups[i]), i == 0 ? " failed" : "", failure);
  }
  if (groups.size() > kShownFailures) text += fmt::format("; {} other failures", groups.size() - kShownFailures);
  return text;
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

std::string RankRegistry::text_of_refusing_stage() const {
  std::map<int, const RegisteredRank*> refusing;
  for (const auto& rank : ranks_) {
    if (rank && rank->spec.follows_plans && !rank->finished) refusing.try_emplace(rank->spec.pp_rank, &*rank);
  }
  for (const auto& rank : ranks_) {
    if (rank && rank->follows_plans()) refusing.erase(rank->spec.pp_rank);
  }
  if (refusing.empty()) return "";
  const RegisteredRank& first = *refusing.begin()->second;
  return fmt::format("rank {} follows no plans: {}; nor does another rank of its stage", first.spec.rank,
                     first.refusal);
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

namespace {

bool are_of_one_job(const std::vector<GpuUses::User>& users) {
  return std::ranges::all_of(users, [&](const GpuUses::User& user) { return user.job == users.front().job; });
}

/// The GPU that the rank shares with a rank of another job; `counting`: the job in which the energy counts.
SharedGpu shared_gpu(const RegisteredRank& rank, const std::string& own_job, const std::string& counting,
                     const std::string& other) {
  const std::string gpu = fmt::format("{} of rank {}", rank.spec.gpu_uuid, rank.spec.rank);
  if (counting == own_job) {
    return {.counts_here = true,
            .text = fmt::format("{} is also that of job {}: the energy of both counts in this job", gpu, other)};
  }
  return {.counts_here = false,
          .text = fmt::format("{} is also that of job {}: the energy of both counts there, and not in this job", gpu,
                              counting)};
}

}  // namespace

void GpuUses::add(const protocol::RankSpec& spec, const std::string& job) {
  const std::string key = gpu_key(spec);
  if (key.empty()) return;
  std::vector<User>& users = users_[key];
  users.push_back({job, spec.rank});
  if (!are_of_one_job(users)) contended_.insert(key);
}

void GpuUses::remove(const protocol::RankSpec& spec, const std::string& job) {
  const auto found = users_.find(gpu_key(spec));
  if (found == users_.end()) return;
  std::erase(found->second, User{job, spec.rank});
  if (found->second.empty()) users_.erase(found);
}

std::vector<GpuUses::Change> GpuUses::follow(const FindRank& find, double now_s) {
  std::vector<Change> changes;
  std::erase_if(contended_, [&](const std::string& key) {
    const auto users = users_.find(key);
    if (users == users_.end()) return true;
    return follow(users->second, find, now_s, changes) && are_of_one_job(users->second);
  });
  return changes;
}

/// Returns whether it is known who lives.
bool GpuUses::follow(const std::vector<User>& users, const FindRank& find, double now_s, std::vector<Change>& changes) {
  std::vector<std::pair<const User*, const RegisteredRank*>> living;
  double newest_s = 0;
  for (const User& user : users) {
    const RegisteredRank* rank = find(user);
    if (rank == nullptr) continue;
    if (now_s - rank->heard_s >= kLeftS) {
      if (rank->shared) changes.push_back({user, std::nullopt});
      continue;
    }
    living.emplace_back(&user, rank);
    newest_s = std::max(newest_s, rank->registered_s);
  }
  // Whether one that was not heard of since lives is not known yet.
  const bool all_known = std::ranges::all_of(
      living, [&](const auto& one) { return one.second->heard_s > newest_s || one.second->registered_s == newest_s; });
  if (living.empty() || !all_known) return all_known;
  const std::string& counting = living.front().first->job;
  const auto other = std::ranges::find_if(living, [&](const auto& one) { return one.first->job != counting; });
  for (const auto& [user, rank] : living) {
    std::optional<SharedGpu> shared;
    if (other != living.end()) shared = shared_gpu(*rank, user->job, counting, other->first->job);
    if (shared != rank->shared) changes.push_back({*user, std::move(shared)});
  }
  return true;
}

}  // namespace lowgear::server
