#include "server/store/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

namespace lowgear::server {

namespace {

constexpr int kBusyTimeoutMs = 5'000;

/// Settings of every connection. The log is copied into the file after some 16 MB, and is not kept larger than 64 MB.
constexpr const char* kSettings =
    "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;"
    "PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;"
    "PRAGMA trusted_schema = OFF";

bool means_full(int code, int system_error) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  return (code & 0xff) == SQLITE_IOERR && (system_error == ENOSPC || system_error == EDQUOT);
}

DatabaseFault fault_of(int code, int system_error) {
  if (means_full(code, system_error)) return DatabaseFault::disk_full;
  switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return DatabaseFault::constraint;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return DatabaseFault::damaged;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return DatabaseFault::locked;
    default:
      return DatabaseFault::other;
  }
}

int flags_of(Database::Opening opening) {
  if (opening == Database::Opening::read_only) return SQLITE_OPEN_READONLY;
  return SQLITE_OPEN_READWRITE | (opening == Database::Opening::make ? SQLITE_OPEN_CREATE : 0);
}

/// For destructors: what cannot be undone now is undone when the file is opened next.
void execute_quietly(sqlite3* connection, const char* sql) {
  (void)sqlite3_exec(connection, sql, nullptr, nullptr, nullptr);
}

}  // namespace

void Database::Close::operator()(sqlite3* connection) const { (void)sqlite3_close_v2(connection); }

Database::Database(std::filesystem::path path, Sharing sharing, Opening opening) : path_(std::move(path)) {
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(path_.c_str(), &connection,
                                   flags_of(opening) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  connection_.reset(connection);
  if (code != SQLITE_OK) fail(code);
  (void)sqlite3_busy_timeout(connection, kBusyTimeoutMs);
  (void)sqlite3_db_config(connection, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  if (sharing == Sharing::exclusive) execute("PRAGMA locking_mode = EXCLUSIVE");
  execute(kSettings);
}

void Database::fail(int code) const {
  const int system_error = connection_ ? sqlite3_system_errno(connection_.get()) : 0;
  const char* const said = connection_ ? sqlite3_errmsg(connection_.get()) : sqlite3_errstr(code);
  throw DatabaseError(fault_of(code, system_error), fmt::format("{}: {}", printable(path_.string()), printable(said)));
}

void Database::use_write_ahead_log() { execute("PRAGMA journal_mode = WAL"); }

void Database::execute(const char* sql) {
  const int code = sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::int64_t Database::integer(const char* sql) {
  Statement statement(*this, sql);
  Statement::Rows rows = statement.query();
  if (!rows.next()) fail(SQLITE_CORRUPT);
  return rows.integer(0);
}

void Database::copy_to(Database& target) {
  sqlite3_backup* const copy = sqlite3_backup_init(target.connection_.get(), "main", connection_.get(), "main");
  if (copy == nullptr) target.fail(sqlite3_extended_errcode(target.connection_.get()));
  // All pages within one read transaction: writers that append to the log meanwhile neither wait nor begin it anew.
  constexpr int kAllPages = -1;
  const int copied = sqlite3_backup_step(copy, kAllPages);
  const int finished = sqlite3_backup_finish(copy);
  if (copied != SQLITE_DONE) target.fail(copied);
  if (finished != SQLITE_OK) target.fail(finished);
}

std::string Database::damage() {
  Statement statement(*this, "PRAGMA integrity_check(1)");
  Statement::Rows rows = statement.query();
  if (!rows.next()) fail(SQLITE_CORRUPT);
  std::string found = rows.text(0);
  return found == "ok" ? "" : found;
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(connection_.get()) == 0; }

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { (void)sqlite3_finalize(statement); }

Statement::Statement(Database& database, std::string_view sql) : database_(&database) {
  sqlite3_stmt* statement = nullptr;
  check(sqlite3_prepare_v3(database.connection_.get(), sql.data(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
  statement_.reset(statement);
}

void Statement::check(int code) const {
  if (code != SQLITE_OK) database_->fail(code);
}

void Statement::bind(int index, std::int64_t value) { check(sqlite3_bind_int64(statement_.get(), index, value)); }
void Statement::bind(int index, double value) { check(sqlite3_bind_double(statement_.get(), index, value)); }

void Statement::bind(int index, const std::optional<double>& value) {
  check(value ? sqlite3_bind_double(statement_.get(), index, *value) : sqlite3_bind_null(statement_.get(), index));
}

void Statement::bind(int index, std::string_view value) {
  // A null pointer would be NULL, not an empty text.
  const char* const data = value.empty() ? "" : value.data();
  check(sqlite3_bind_text64(statement_.get(), index, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

std::int64_t Statement::changes() const { return sqlite3_changes64(database_->connection_.get()); }

Statement::Rows::~Rows() { (void)sqlite3_reset(statement_->statement_.get()); }

bool Statement::Rows::next() {
  const int code = sqlite3_step(statement_->statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) statement_->database_->fail(code);
  return false;
}

std::int64_t Statement::Rows::integer(int column) const {
  return sqlite3_column_int64(statement_->statement_.get(), column);
}

int Statement::Rows::small_integer(int column) const {
  return sqlite3_column_int(statement_->statement_.get(), column);
}

double Statement::Rows::number(int column) const { return sqlite3_column_double(statement_->statement_.get(), column); }

std::optional<double> Statement::Rows::optional_number(int column) const {
  if (sqlite3_column_type(statement_->statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return number(column);
}

std::string Statement::Rows::text(int column) const {
  sqlite3_stmt* const statement = statement_->statement_.get();
  // The bytes of a text as they are stored, in UTF-8, without the terminator that column_text would add.
  const auto* const begin = static_cast<const char*>(sqlite3_column_blob(statement, column));
  const int bytes = sqlite3_column_bytes(statement, column);
  return begin == nullptr ? std::string() : std::string(begin, static_cast<std::size_t>(bytes));
}

Transaction::Transaction(Database& database) : database_(&database) { database.execute("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (database_->in_transaction()) execute_quietly(database_->connection_.get(), "ROLLBACK");
}

void Transaction::commit() { database_->execute("COMMIT"); }

Savepoint::Savepoint(Database& database) : database_(&database) { database.execute("SAVEPOINT part"); }

Savepoint::~Savepoint() {
  if (!kept_ && database_->in_transaction()) {
    execute_quietly(database_->connection_.get(), "ROLLBACK TO part; RELEASE part");
  }
}

void Savepoint::keep() {
  database_->execute("RELEASE part");
  kept_ = true;
}

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
  energy_variance REAL NOT NULL, doubtful_j REAL NOT NULL DEFAULT 0, UNIQUE (job, hour_s, baseline_j)
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
