#include "agent/mps/mps_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/lease/lease_table.h"

namespace lowgear::agent {

void MpsShareTable::require_together(const MpsShare& share, const MpsShare& other) {
  const std::string& gpu = share.gpu_uuid;
  if (other.owner.uid != share.owner.uid) {
    throw GpuBusy(
        fmt::format("GPU {} has a share of user {}, and MPS serves one user at a time; try again after that "
                    "job, or use another GPU",
                    gpu, user_name(other.owner.uid)));
  }
  if (!share.request.job.empty() && share.request.job == other.request.job) {
    throw GpuBusy(
        fmt::format("another rank of job {} has a share of GPU {}, and NCCL refuses two ranks of a "
                    "communicator on one GPU; give each rank a GPU of its own",
                    quote(share.request.job), gpu));
  }
  if (share.request.client == other.request.client) {
    throw GpuBusy(fmt::format("GPU {} has a client {} already; choose another name", gpu, quote(other.request.client)));
  }
}

const MpsShare& MpsShareTable::add(MpsShare share) {
  share.id = last_id_ + 1;
  if (share.request.client.empty()) {
    share.request.client = share.request.job.empty() ? fmt::format("share-{}", share.id) : share.request.job;
  }
  const auto is_same = [&](const MpsShare& other) {
    return other.gpu_uuid == share.gpu_uuid && other.process == share.process;
  };
  int others_percent = 0;
  for (const auto& [id, other] : shares_) {
    if (other.gpu_uuid != share.gpu_uuid || is_same(other)) continue;
    require_together(share, other);
    others_percent += other.request.percent;
  }
  if (others_percent + share.request.percent > max_percent_) {
    throw GpuBusy(
        fmt::format("{} % of GPU {} are given already, and {} % more are above the {} % of max_percent; shares "
                    "reserve nothing, so the administrator may allow more than 100 %",
                    others_percent, share.gpu_uuid, share.request.percent, max_percent_));
  }
  std::erase_if(shares_, [&](const auto& entry) { return is_same(entry.second); });
  ++last_id_;
  return shares_.emplace(share.id, std::move(share)).first->second;
}

const MpsShare* MpsShareTable::find(std::uint64_t id) const {
  const auto found = shares_.find(id);
  return found == shares_.end() ? nullptr : &found->second;
}

void MpsShareTable::remove(std::uint64_t id) { shares_.erase(id); }

int MpsShareTable::sum_percent(std::string_view gpu_uuid) const {
  int sum = 0;
  for (const auto& [id, share] : shares_) {
    if (share.gpu_uuid == gpu_uuid) sum += share.request.percent;
  }
  return sum;
}

}  // namespace lowgear::agent
