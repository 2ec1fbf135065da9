#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/job/job_record.h"
#include "server/store/store.h"

namespace lowgear::server {

/// `decisions`: number of decisions of the job so far.
[[nodiscard]] StoredJob stored_job(const JobRecord& job, std::int64_t decisions);
[[nodiscard]] StoredRank stored_rank(const JobRecord& job, const RegisteredRank& rank);
/// A part of the reports of one request: those from `begin` to `end`.
[[nodiscard]] StoredReports stored_reports(const JobRecord& job, const protocol::RankReports& reports,
                                           std::size_t begin, std::size_t end);

/// A stored job.
struct RestoredJob {
  JobRecord record;
  std::int64_t decisions = 0;         ///< that it has made
  std::vector<StoredUsage> usage;     ///< of iterations that the store has not counted
  std::vector<std::string> left_out;  ///< damaged rows of plans, cells and reports, and why
};

/// `rows` are of this job only. Throws InputError when the job's own row, a rank's, or all plans are damaged.
[[nodiscard]] RestoredJob restore_job(const StoredJob& stored, const StoreContents& rows, double now_s);

}  // namespace lowgear::server
