#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/server/store/database.h"
#include "control/server/store/store.h"

namespace lowgear::server {

/// What is kept for how long, and what of it a server loads when it starts. Decisions are kept for ever.
struct StoreRetention {
  std::int64_t iterations = 2'000;        ///< reports of a job: of its newest iterations
  int plans = 50;                         ///< of a job: the newest
  double finished_days = 30;              ///< what is shown of a job that has finished, but its summary
  std::int64_t loaded_reports = 200'000;  ///< of a job
  int loaded_plans = 8;                   ///< of a job
  int loaded_decisions = 200;             ///< of a job
  int loaded_finished_jobs = 1'000;
};

/// The tables of the server's file. Every call throws DatabaseError; those that write belong into a transaction.
class StoreTables {
 public:
  /// The file has to be of the newest version. `database` has to outlive this.
  StoreTables(Database& database, const StoreRetention& retention);

  /// Writes a change and removes the reports, plans and cells of its jobs that are too old to be kept.
  void put(const StoreChange& change);
  [[nodiscard]] StoreContents load();
  [[nodiscard]] std::vector<StoredDecision> decisions(std::string_view job, std::int64_t after, int limit);
  [[nodiscard]] std::optional<StoredArchive> archive(std::string_view job);
  /// Removes rows of jobs that finished too long before `now_s` (since 1970), and those that an archive stands for, at
  /// most some thousand; returns whether there are more.
  [[nodiscard]] bool expire(double now_s);

 private:
  void put(const StoredJob& job);
  void put(const StoredReports& reports);
  void put(const StoredPlan& plan);
  void put(const StoredCells& cells);
  void put(const StoredArchive& archive);
  void load_jobs(StoreContents& contents);
  void load_finished(StoreContents& contents);
  void load_rows_of(const std::string& job, StoreContents& contents);
  void load_decisions_of(const std::string& job, StoreContents& contents);

  StoreRetention retention_;
  Statement put_job_;
  Statement put_rank_;
  Statement put_reports_;
  Statement put_plan_;
  Statement put_cells_;
  Statement put_decision_;
  Statement put_document_;
  Statement remove_document_;
  Statement drop_reports_;
  Statement drop_plans_;
  Statement drop_cells_;
  Statement select_jobs_;
  Statement select_ranks_;
  Statement select_reports_;
  Statement select_plans_;
  Statement select_cells_;
  Statement select_newest_decisions_;
  Statement select_decisions_;
  Statement select_documents_;
  Statement put_archive_;
  Statement select_finished_;
  Statement select_archive_;
  Statement select_expired_job_;
  Statement expire_archive_;
  Statement expire_reports_;
  Statement expire_plans_;
  Statement expire_cells_;
  Statement expire_ranks_;
};

}  // namespace lowgear::server
