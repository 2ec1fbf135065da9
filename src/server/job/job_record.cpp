#include "server/job/job_record.h"

#include <array>
#include <cstddef>
#include <utility>

namespace lowgear::server {
namespace {

constexpr auto kStates = std::to_array<std::string_view>(
    {"registering", "baseline", "profiling", "planning", "running", "observing", "finished"});

}  // namespace

std::string_view name(JobState state) { return kStates[static_cast<std::size_t>(state)]; }

JobRecord::JobRecord(std::string job_id, protocol::JobSpec job_spec, double created_s, protocol::JobPolicy servers)
    : id(std::move(job_id)),
      spec(std::move(job_spec)),
      policy(spec.policy.value_or(servers)),
      ranks(spec.parallel),
      history(spec.parallel.world_size()),
      watch(spec.parallel.world_size()),
      targets(spec) {
  status.created_s = status.heard_s = created_s;
}

std::string profile_key(const JobRecord& job) { return job.spec.profile_key(job.ranks.simulated()); }

SlowRanks slow_ranks(const JobRecord& job) {
  SlowRanks slow = job.watch.slow();
  for (const auto& [rank, known] : job.targets.slow()) slow[rank] = known;
  return slow;
}

}  // namespace lowgear::server
