#include "server/job/gpu_uses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/job/job_record.h"

namespace lowgear::server {
namespace {

bool are_of_one_job(const std::vector<GpuUses::User>& users) {
  return std::ranges::all_of(users, [&](const GpuUses::User& user) { return user.job == users.front().job; });
}

/// What the rank shares with a rank of another job; `counting`: the job in which the energy counts.
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
