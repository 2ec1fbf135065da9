#include "agent/lease/lease_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/user_database.h"
#include "base/core/formats/json.h"

namespace lowgear::agent {

Lease& LeaseTable::add(Lease lease) {
  if (const Lease* holder = of_gpu(lease.gpu)) {
    const std::string job = holder->job.empty()
                                ? ""
                                : fmt::format(" (rank {} of job {})", holder->rank.value_or(0), printable(holder->job));
    throw GpuBusy(
        fmt::format("process {} of user {}{} holds this GPU (lease {}); it is free when that process ends: wait, or "
                    "start this job on other GPUs (lowgear train --gpus, CUDA_VISIBLE_DEVICES)",
                    holder->owner.pid, user_name(holder->owner.uid), job, holder->id));
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

std::string user_name(uid_t uid) { return find_user_name(uid).value_or(std::to_string(uid)); }

namespace {

constexpr std::string_view kFormat = "lowgear.gpu-assignments/1";

}  // namespace

GpuAssignments::GpuAssignments(std::filesystem::path file, std::string boot)
    : file_(std::move(file)), boot_(std::move(boot)) {
  if (!std::filesystem::exists(file_)) return;
  try {
    read();
  } catch (const Error& error) {
    gpus_.clear();
    damage_ = fmt::format("the assignments of GPUs to users are lost, assign them again: {}", error.what());
  }
}

void GpuAssignments::read() {
  const Json document = parse_json(read_file(file_), file_.string());
  const JsonView view(document, file_.string());
  require_members(view, {"format", "boot", "gpus"});
  if (view.at("format").text() != kFormat) view.at("format").fail(fmt::format("is not {}", kFormat));
  if (view.at("boot").text() != boot_) return;
  const JsonView gpus = view.at("gpus");
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    require_members(gpus.at(i), {"uuid", "uid", "job", "sluid"});
    const long long uid = gpus.at(i).at("uid").integer();
    if (uid < 0 || uid > UINT32_MAX) gpus.at(i).at("uid").fail("is no user");
    gpus_[gpus.at(i).at("uuid").text()] = {
        .uid = static_cast<uid_t>(uid),
        .job = gpus.at(i).at("job").text(),
        .sluid = gpus.at(i).has("sluid") ? gpus.at(i).at("sluid").text() : std::string()};
  }
}

const GpuAssignment* GpuAssignments::find(std::string_view uuid) const {
  const auto found = gpus_.find(uuid);
  return found == gpus_.end() ? nullptr : &found->second;
}

void GpuAssignments::keep(ByUuid gpus) {
  if (!file_.empty()) {
    Json list = Json::array();
    for (const auto& [uuid, assignment] : gpus) {
      list.push_back({{"uuid", uuid}, {"uid", assignment.uid}, {"job", assignment.job}});
      if (!assignment.sluid.empty()) list.back()["sluid"] = assignment.sluid;
    }
    write_file_atomically(file_, Json{{"format", kFormat}, {"boot", boot_}, {"gpus", std::move(list)}}.dump() + "\n");
  }
  gpus_ = std::move(gpus);
}

void GpuAssignments::set(const std::string& uuid, GpuAssignment assignment) {
  ByUuid gpus = gpus_;
  gpus[uuid] = std::move(assignment);
  keep(std::move(gpus));
}

bool GpuAssignments::remove(const std::string& uuid, std::string_view job) {
  const GpuAssignment* assigned = find(uuid);
  if (assigned == nullptr || assigned->job != job) return false;
  ByUuid gpus = gpus_;
  gpus.erase(uuid);
  keep(std::move(gpus));
  return true;
}

}  // namespace lowgear::agent
