#pragma once

#include <cstddef>
#include <cstdint>

#include "base/core/formats/json.h"
#include "control/server/job/job.h"
#include "control/server/job/server_metrics.h"

namespace lowgear::server {

// The documents of docs/server-api.md that show a job.
[[nodiscard]] Json summary_json(const Job& job);
[[nodiscard]] Json ranks_json(const Job& job);
[[nodiscard]] Json frontier_json(const Job& job);
[[nodiscard]] Json timeline_json(const Job& job);
/// Iterations above `after`, at most `limit`.
[[nodiscard]] Json iterations_json(const Job& job, std::int64_t after, std::size_t limit);
[[nodiscard]] Json iteration_json(const Job& job, const JobIteration& iteration);
/// What the GPU of a rank that has registered does at present.
[[nodiscard]] Json gpu_json(const Job& job, int rank);

/// For `/metrics`; it may not outlive the job.
[[nodiscard]] JobSnapshot job_snapshot(const Job& job);

}  // namespace lowgear::server
