#include "server/store/store_schema.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace lowgear::server {
namespace {

/// "LwGr": marks the file as this server's (SQLite's `application_id`).
constexpr std::int64_t kApplicationId = 0x4C774772;

// Reports of one iteration lie next to each other: all ranks of a job report the same iteration at about the same time,
// which then touches few pages, and the oldest are removed by range.
//
// A run's name may come again once its job is over and no longer shown. `archives` are what is shown of jobs that are
// over; the summary comes first, so that lists read it without the pages of the rest. `usage` is what jobs have used,
// hour by hour, and stays when their reports are removed. A baseline is known by its energy; 0 is none. Names of
// `used_jobs` are apart, as a specification may have megabytes.
constexpr const char* kTables = R"(
CREATE TABLE jobs (
  id TEXT PRIMARY KEY NOT NULL, run TEXT NOT NULL, spec TEXT NOT NULL, state TEXT NOT NULL,
  created_s REAL NOT NULL, finished_s REAL
) WITHOUT ROWID;
CREATE INDEX jobs_by_end ON jobs (finished_s, created_s);
CREATE TABLE ranks (
  job TEXT NOT NULL, rank INTEGER NOT NULL, document TEXT NOT NULL, PRIMARY KEY (job, rank)
) WITHOUT ROWID;
CREATE TABLE reports (
  job TEXT NOT NULL, first_iteration INTEGER NOT NULL, rank INTEGER NOT NULL, last_iteration INTEGER NOT NULL,
  document TEXT NOT NULL, PRIMARY KEY (job, first_iteration, rank)
) WITHOUT ROWID;
CREATE TABLE plans (
  job TEXT NOT NULL, version INTEGER NOT NULL, document TEXT NOT NULL, PRIMARY KEY (job, version)
);
CREATE TABLE cells (
  job TEXT NOT NULL, rank INTEGER NOT NULL, plan_version INTEGER NOT NULL, document TEXT NOT NULL,
  PRIMARY KEY (job, rank, plan_version)
);
CREATE TABLE decisions (
  job TEXT NOT NULL, id INTEGER NOT NULL, time_s REAL NOT NULL, document TEXT NOT NULL, PRIMARY KEY (job, id)
) WITHOUT ROWID;
CREATE TABLE documents (key TEXT PRIMARY KEY NOT NULL, document TEXT NOT NULL);
CREATE TABLE archives (
  job TEXT PRIMARY KEY NOT NULL, summary TEXT NOT NULL, ranks TEXT NOT NULL, frontier TEXT NOT NULL,
  timeline TEXT NOT NULL, iterations TEXT NOT NULL
);
CREATE TABLE used_jobs (
  job TEXT PRIMARY KEY NOT NULL, run TEXT NOT NULL, name TEXT NOT NULL, user TEXT NOT NULL, gpu TEXT NOT NULL,
  simulated INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE usage (
  id INTEGER PRIMARY KEY, job TEXT NOT NULL, hour_s INTEGER NOT NULL, baseline_j REAL NOT NULL,
  baseline_error_j REAL NOT NULL, baseline_time_s REAL NOT NULL, last_iteration INTEGER NOT NULL,
  iterations INTEGER NOT NULL, measured INTEGER NOT NULL, time_s REAL NOT NULL, energy_j REAL NOT NULL,
  energy_variance REAL NOT NULL, UNIQUE (job, hour_s, baseline_j)
);
CREATE INDEX usage_by_hour ON usage (hour_s);
CREATE TABLE budget_uses (
  id INTEGER PRIMARY KEY, time_s INTEGER NOT NULL, budget TEXT NOT NULL, limit_w REAL NOT NULL, planned_w REAL NOT NULL,
  assumed_w REAL NOT NULL, measured_w REAL, measured_gpus INTEGER NOT NULL, held_w REAL, kept INTEGER NOT NULL
);
CREATE INDEX budget_uses_by_time ON budget_uses (time_s);
)";

}  // namespace

bool has_schema(Database& database) {
  const std::string name = printable(database.path().string());
  const std::int64_t version = database.integer("PRAGMA user_version");
  if (version == 0 && database.integer("SELECT count(*) FROM sqlite_schema") == 0) return false;
  if (database.integer("PRAGMA application_id") != kApplicationId) {
    throw InputError(fmt::format("{}: a database of another program; choose another state folder", name));
  }
  if (version != kStoreSchema) {
    throw InputError(
        fmt::format("{}: has version {}, and this lowgear reads version {} alone; use the lowgear that wrote it, or "
                    "move server.db and "
                    "server.db-wal away to start with an empty database",
                    name, version, kStoreSchema));
  }
  return true;
}

void require_schema(Database& database) {
  const bool is_whole = has_schema(database);
  database.use_write_ahead_log();  // only now is it certain that the file is ours
  if (is_whole) return;
  Transaction transaction(database);
  database.execute(kTables);
  database.execute(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, kStoreSchema).c_str());
  transaction.commit();
}

}  // namespace lowgear::server
