#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "report/usage/usage_row.h"

namespace lowgear::server {

/// Largest number of a version, a rank or a clock that the stored state of a job may hold.
inline constexpr int kMaxStoredNumber = 1 << 30;

/// The row of a job. Documents are JSON that only the control plane reads.
struct StoredJob {
  std::string id;
  std::string run;    ///< unique
  std::string spec;   ///< as it was registered
  std::string state;  ///< its progress and settings
  double created_s = 0;
  std::optional<double> finished_s;
};

struct StoredRank {
  std::string job;
  int rank = 0;
  std::string document;
};

/// Reports of one rank that came in one request.
struct StoredReports {
  std::string job;
  int rank = 0;
  std::int64_t first_iteration = 0;
  std::int64_t last_iteration = 0;
  std::string document;
  /// The iteration that the job has reached, by which old reports are dropped; empty: the last of these. One rank that
  /// reports an iteration far ahead of the others must not cost them theirs.
  std::optional<std::int64_t> reached = std::nullopt;
};

struct StoredPlan {
  std::string job;
  int version = 0;
  std::string document;
};

/// Cells that a rank posted for a profile plan.
struct StoredCells {
  std::string job;
  int rank = 0;
  int plan_version = 0;
  std::string document;
  /// First plan of their sweep: cells of earlier sweeps are dropped, as this one replaces them.
  int sweep = 0;
};

struct StoredDecision {
  std::string job;
  std::int64_t id = 0;  ///< counts up within the job
  double time_s = 0;
  std::string document;
};

/// The archive of a job that is over, as JSON of the documents of docs/server-api.md. Empty: has expired.
struct StoredArchive {
  std::string job;
  std::string summary;
  std::string spec;  ///< of the job's row; not written with the archive
  std::string ranks;
  std::string frontier;
  std::string timeline;
  std::string iterations;  ///< the list
};

/// The part of an archived job that a server loads when it starts.
struct StoredFinishedJob {
  std::string id;
  std::string run;
  double created_s = 0;
  double finished_s = 0;
  std::string summary;  ///< of the archive
};

/// A document that belongs to no job: a profile by its key (`profile/...`), a signal (`signal/...`).
struct StoredDocument {
  std::string key;
  std::string document;
};

/// The usage of some iterations of a job. Rows of the same job, hour and baseline add up in the store.
struct StoredUsage {
  usage::UsageRow row;
  std::int64_t last_iteration = 0;  ///< of those that are counted
  /// Nothing is added: figures of the row's job have become invalid, and none of its iterations so far is compared.
  bool takes_savings_back = false;
};

/// How a power budget was used at a time.
struct StoredBudgetUse {
  std::int64_t time_s = 0;  ///< since 1970
  std::string budget;
  double limit_w = 0;
  double planned_w = 0;
  double assumed_w = 0;
  std::optional<double> measured_w;  ///< of `measured_gpus`; empty: of none
  std::int64_t measured_gpus = 0;
  std::optional<double> held_w;  ///< by agents; empty: there is none
  bool kept = true;
};

/// A job, as exports show it: one that has completed iterations.
struct UsedJob {
  std::string job;
  std::string run;
  std::string name;
  std::string user;
  std::string gpu;
  bool simulated = false;
  double created_s = 0;
  std::optional<double> finished_s;
  std::int64_t iterations = 0;
  std::int64_t measured_iterations = 0;
  double time_s = 0;
  double energy_j = 0;
};

/// Rows that can be exported.
enum class ExportTable : unsigned char { usage, jobs, decisions, budgets };

/// A page of a table: the rows after a place in it.
struct ExportQuery {
  ExportTable table = ExportTable::usage;
  double from_s = 0;  ///< rows of this time and later; jobs that had not finished by then
  double to_s = 0;    ///< and before this one; jobs that had begun by then
  std::string after;  ///< `next` of the page before; empty: the first page
  int limit = 0;      ///< rows that are looked at
};
struct ExportPage {
  std::vector<usage::UsageRow> hours;
  std::vector<UsedJob> jobs;
  std::vector<StoredDecision> decisions;
  std::vector<StoredBudgetUse> budgets;
  std::string next;  ///< where the next page begins, in printable ASCII without blanks; empty: there is none
};

/// All that one request or decision changes: written whole or not at all. Rows replace those of the same key.
struct StoreChange {
  std::vector<StoredJob> jobs;
  std::vector<StoredRank> ranks;
  std::vector<StoredReports> reports;
  std::vector<StoredPlan> plans;
  std::vector<StoredCells> cells;
  std::vector<StoredDecision> decisions;
  std::vector<StoredDocument> documents;
  std::vector<std::string> removed_documents;  ///< their keys
  std::vector<StoredArchive> archives;  ///< of jobs whose other rows but decisions and usage are then removed in time
  std::vector<StoredUsage> usage;
  std::vector<StoredBudgetUse> budgets;

  [[nodiscard]] bool empty() const {
    return jobs.empty() && ranks.empty() && reports.empty() && plans.empty() && cells.empty() && decisions.empty() &&
           documents.empty() && removed_documents.empty() && archives.empty() && usage.empty() && budgets.empty();
  }
};

/// The rows that a server loads when it starts: jobs that have not finished, with all their rows but old reports,
/// and the jobs that finished last: their summaries, or, of those that are not archived, their rows without ranks,
/// reports, plans and cells.
struct StoreContents {
  std::vector<StoredJob> jobs;              ///< oldest first
  std::vector<StoredFinishedJob> finished;  ///< newest first
  std::vector<StoredRank> ranks;
  std::vector<StoredReports> reports;  ///< of the newest iterations of every job, oldest first
  std::vector<StoredPlan> plans;       ///< the newest of every job, oldest first
  std::vector<StoredCells> cells;
  std::vector<StoredDecision> decisions;  ///< the newest of every job, oldest first
  std::vector<StoredDocument> documents;
  std::map<std::string, std::int64_t> counted;  ///< last iteration that is in the usage of a job that has not finished
};

enum class StoreOutcome : unsigned char {
  committed,
  disk_full,  ///< nothing of the change is kept
  busy,       ///< likewise: more waits to be written than may, or another program holds the file; later it may be taken
  failed,     ///< likewise: the change contradicts stored rows, or the disk fails; the store has said why in its log
};

/// Persistent storage of the control plane.
class Store {
 public:
  virtual ~Store() = default;
  /// Throws Error when the store cannot be read.
  [[nodiscard]] virtual StoreContents load() = 0;
  /// Writes the change after those that were given before. `done` (may be empty) is called on the server's thread,
  /// never before this returns, once the outcome is certain: a committed change survives the end of the process, and of
  /// the machine, at any moment. Outcomes come in the order in which changes are written; that of one that is `busy`
  /// comes at once.
  virtual void write(StoreChange change, std::function<void(StoreOutcome)> done) = 0;
  /// Decisions above `after`, the lowest first, at most `limit`, for people who look back; with everything that was
  /// written before. `done` is called on the server's thread, without any when they cannot be read.
  virtual void read_decisions(std::string job, std::int64_t after, int limit,
                              std::function<void(std::vector<StoredDecision>)> done) = 0;
  /// A job's archive, with everything that was written before. `done` is called on the server's thread, with none when
  /// there is none or it cannot be read.
  virtual void read_archive(std::string job, std::function<void(std::optional<StoredArchive>)> done) = 0;
  /// A page of a table, with everything that was written before. `done` is called on the server's thread, with none
  /// when it cannot be read, or `after` is no place in the table.
  virtual void read_page(ExportQuery query, std::function<void(std::optional<ExportPage>)> done) = 0;
};

}  // namespace lowgear::server
