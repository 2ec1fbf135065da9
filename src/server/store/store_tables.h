#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/database.h"
#include "server/store/store.h"

namespace lowgear::server {

/// How long rows are kept, and how many of them a server loads when it starts.
struct StoreRetention {
  std::int64_t iterations = 2'000;        ///< reports of a job: of its newest iterations
  int plans = 50;                         ///< of a job: the newest
  std::int64_t decisions = 10'000;        ///< of a job: the newest
  double finished_days = 30;              ///< documents of a finished job, except its summary
  double usage_days = 800;                ///< what jobs have used, by the hour
  double budget_days = 60;                ///< how power budgets were used
  std::int64_t loaded_reports = 200'000;  ///< of a job
  int loaded_plans = 8;                   ///< of a job
  int loaded_decisions = 200;             ///< of a job
  int loaded_finished_jobs = 1'000;
};

/// The tables of the server's file. Every call throws DatabaseError; those that write belong into a transaction.
class StoreTables {
 public:
  /// The file has to have its tables. `database` has to outlive this.
  StoreTables(Database& database, const StoreRetention& retention);

  /// Writes a change and removes the reports, plans, cells and decisions of its jobs that are too old to be kept.
  void put(const StoreChange& change);
  [[nodiscard]] StoreContents load();
  [[nodiscard]] std::vector<StoredDecision> decisions(std::string_view job, std::int64_t after, int limit);
  [[nodiscard]] std::optional<StoredArchive> archive(std::string_view job);
  /// Empty when `after` is no place in the table.
  [[nodiscard]] std::optional<ExportPage> page(const ExportQuery& query);
  /// Removes rows of jobs that finished too long before `now_s` (since 1970), and those that an archive stands for, at
  /// most some thousand; returns whether there are more.
  [[nodiscard]] bool expire(double now_s);

 private:
  void put(const StoredJob& job);
  void put(const StoredReports& reports);
  void put(const StoredPlan& plan);
  void put(const StoredCells& cells);
  void put(const StoredDecision& decision);
  void put(const StoredArchive& archive);
  void put(const StoredUsage& usage);
  void put(const StoredBudgetUse& use);
  [[nodiscard]] std::optional<ExportPage> usage_page(const ExportQuery& query);
  [[nodiscard]] std::optional<ExportPage> decisions_page(const ExportQuery& query);
  [[nodiscard]] ExportPage jobs_page(const ExportQuery& query);
  [[nodiscard]] std::optional<ExportPage> budgets_page(const ExportQuery& query);
  [[nodiscard]] bool expire_usage(double now_s);
  void load_jobs(StoreContents& contents);
  void load_finished(StoreContents& contents);
  void load_rows_of(const std::string& job, StoreContents& contents);
  void load_decisions_of(const std::string& job, StoreContents& contents);

  /// Each writes a row, in the place of one of the same key.
  struct Writes {
    explicit Writes(Database& database);
    Statement job;
    Statement rank;
    Statement reports;
    Statement plan;
    Statement cells;
    Statement decision;
    Statement document;
    Statement archive;
    Statement remove_document;
    Statement used_job;
    Statement usage;
    Statement uncompared;
    Statement budget_use;
  };
  /// Remove rows of a running job that are too old.
  struct Drops {
    explicit Drops(Database& database);
    Statement reports;
    Statement plans;
    Statement cells;
    Statement decisions;
  };
  struct Reads {
    explicit Reads(Database& database);
    Statement jobs;
    Statement ranks;
    Statement reports;
    Statement plans;
    Statement cells;
    Statement newest_decisions;
    Statement decisions;
    Statement documents;
    Statement finished;
    Statement archive;
    Statement counted;
    Statement usage;
    Statement used_jobs;
    Statement all_decisions;
    Statement budget_uses;
  };
  /// Find a job that finished too long ago, or that an archive stands for, and remove its rows.
  struct Expiry {
    explicit Expiry(Database& database);
    Statement next_job;
    Statement archive;
    Statement reports;
    Statement plans;
    Statement cells;
    Statement ranks;
    Statement usage;
    Statement used_jobs;
    Statement budget_uses;
  };

  StoreRetention retention_;
  Writes write_;
  Drops drop_;
  Reads select_;
  Expiry expire_;
};

}  // namespace lowgear::server
