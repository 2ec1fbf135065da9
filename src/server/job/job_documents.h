#pragma once

#include <cstddef>
#include <cstdint>

#include "base/core/formats/json.h"
#include "server/job/job_record.h"
#include "server/job/server_metrics.h"

namespace lowgear::server {

// The documents of docs/server-api.md that show a job.
[[nodiscard]] Json summary_json(const JobRecord& job);
[[nodiscard]] Json ranks_json(const JobRecord& job);
[[nodiscard]] Json frontier_json(const JobRecord& job);
[[nodiscard]] Json timeline_json(const JobRecord& job);
/// Iterations above `after`, at most `limit`.
[[nodiscard]] Json iterations_json(const JobRecord& job, std::int64_t after, std::size_t limit);
[[nodiscard]] Json iteration_json(const JobRecord& job, const JobIteration& iteration);
/// The present state of the GPU of a rank that has registered.
[[nodiscard]] Json gpu_json(const JobRecord& job, int rank);

/// For `/metrics`; it may not outlive the job.
[[nodiscard]] JobSnapshot job_snapshot(const JobRecord& job);

}  // namespace lowgear::server
