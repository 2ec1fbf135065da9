#pragma once

#include <cstddef>
#include <vector>

#include "planning/schedule/schedule.h"
#include "protocol/job_spec.h"

namespace lowgear::server {

/// Units of one iteration of the largest job that the server takes: as many as still plan in seconds.
inline constexpr std::size_t kMaxJobActions = 1'000'000;

/// By pipeline rank, of a job whose schedule is `envpipe`: those that it states, or what EnvPipe's rule gives where a
/// backward takes twice the time of a forward. Of another schedule: none.
[[nodiscard]] std::vector<int> early_forwards(const protocol::JobSpec& spec);
/// Forwards and backwards of an iteration of one pipeline.
[[nodiscard]] std::size_t job_units(const protocol::JobSpec& spec);

/// The job's schedule without communication. Throws InputError when there is no such schedule, it cannot run, or it
/// does not fit the job's sizes.
[[nodiscard]] schedule::Schedule make_schedule(const protocol::JobSpec& spec);

}  // namespace lowgear::server
