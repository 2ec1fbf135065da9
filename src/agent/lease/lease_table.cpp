#include "agent/lease/lease_table.h"

#include <fmt/format.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lowgear::agent {

Lease& LeaseTable::add(Lease lease) {
  if (const Lease* holder = of_gpu(lease.gpu)) {
    throw GpuBusy(fmt::format("process {} of user {} holds this GPU (lease {}); it is free when that process ends",
                              holder->owner.pid, user_name(holder->owner.uid), holder->id));
  }
  lease.id = ++last_id_;
  return leases_.emplace(lease.id, std::move(lease)).first->second;
}

Lease* LeaseTable::find(std::uint64_t id) {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

Lease* LeaseTable::of_gpu(std::size_t gpu) {
  const auto found = std::ranges::find_if(leases_, [gpu](const auto& each) { return each.second.gpu == gpu; });
  return found == leases_.end() ? nullptr : &found->second;
}

void LeaseTable::remove(std::uint64_t id) { leases_.erase(id); }

std::string user_name(uid_t uid) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) return found->pw_name;
  return std::to_string(uid);
}

}  // namespace lowgear::agent
