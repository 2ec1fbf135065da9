#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/job/job_record.h"
#include "server/store/store.h"

namespace lowgear::server {

/// A rank that may not know yet that its job is over.
struct LateRank {
  std::string key;
  std::int64_t last_iteration = -1;
};

/// The part of a finished job that a server keeps in memory; its documents are in the store (`StoredArchive`).
struct FinishedJob {
  std::string id;
  std::string run;
  std::string state;
  double created_s = 0;
  double finished_s = 0;
  std::string summary;                 ///< as lists show it, JSON
  std::optional<std::string> invalid;  ///< as `invalid_text`
  int plan_version = 0;
  bool keeps_run = false;              ///< another start of the run is not another job
  std::map<int, LateRank> late_ranks;  ///< for a while
  double late_until_s = 0;             ///< then they have to know

  /// Null unless the key is that of the rank.
  [[nodiscard]] const LateRank* late_rank(int rank, std::string_view key) const;
};

/// Jobs that are over and archived, by id: the last ones, for people who look back.
class FinishedJobs {
 public:
  explicit FinishedJobs(std::size_t kept) : kept_(kept) {}

  void add(FinishedJob job);
  /// Null: it is none of these.
  [[nodiscard]] const FinishedJob* find(std::string_view id) const;
  [[nodiscard]] const std::map<std::string, FinishedJob, std::less<>>& all() const { return jobs_; }

  /// Ranks whose time is over by `now_s` are not answered any more. Returns whether there are such.
  bool end_late_ranks(double now_s);
  /// Drops those that ended first, as far as there are too many, and returns them; but none whose ranks may ask that do
  /// not know yet that it is over.
  [[nodiscard]] std::vector<FinishedJob> forget_old();

 private:
  std::size_t kept_;
  std::map<std::string, FinishedJob, std::less<>> jobs_;
};

/// After the end of a job in which its ranks are still answered.
inline constexpr double kLateRanksS = 600;

/// Plans of more units are left out of an archive: that of the largest job takes 100 MB.
inline constexpr std::size_t kArchivedUnits = 50'000;

/// The documents of a job that is over.
[[nodiscard]] StoredArchive archive_of(const JobRecord& job);
/// Throws InputError when the summary is damaged.
[[nodiscard]] FinishedJob finished_job(StoredFinishedJob stored);
/// Whether another start of the run of a job that is over is not another job: it was finished by request, and has ranks
/// that have not ended.
[[nodiscard]] bool keeps_run(const JobRecord& job);
/// With its ranks, which may be late.
[[nodiscard]] FinishedJob finished_job(const JobRecord& job, double now_s);

/// The documents of docs/server-api.md for a job that is over, as JSON. Expired parts are empty. They throw
/// InputError when the archive is damaged.
[[nodiscard]] std::string show_finished_job(const FinishedJob& job, const StoredArchive& archive);
[[nodiscard]] std::string show_frontier(const FinishedJob& job, const StoredArchive& archive);
[[nodiscard]] std::string show_timeline(const FinishedJob& job, const StoredArchive& archive);
/// Those above `after`, at most `limit`.
[[nodiscard]] std::string show_iterations(const FinishedJob& job, const StoredArchive& archive, std::int64_t after,
                                          std::size_t limit);

}  // namespace lowgear::server
