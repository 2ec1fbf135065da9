#include "control/server/store/store_tables.h"

#include <algorithm>

namespace lowgear::server {
namespace {

constexpr int kExpiredRows = 5'000;
constexpr double kDayS = 86'400;

}  // namespace

StoreTables::Writes::Writes(Database& database)
    : job(database,
          "INSERT INTO jobs (id, run, spec, state, created_s, finished_s) VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
          "ON CONFLICT (id) DO UPDATE SET run = ?2, spec = ?3, state = ?4, created_s = ?5, finished_s = ?6"),
      rank(database, "REPLACE INTO ranks (job, rank, document) VALUES (?1, ?2, ?3)"),
      reports(database,
              "REPLACE INTO reports (job, first_iteration, rank, last_iteration, document) "
              "VALUES (?1, ?2, ?3, ?4, ?5)"),
      plan(database, "REPLACE INTO plans (job, version, document) VALUES (?1, ?2, ?3)"),
      cells(database, "REPLACE INTO cells (job, rank, plan_version, document) VALUES (?1, ?2, ?3, ?4)"),
      decision(database, "REPLACE INTO decisions (job, id, time_s, document) VALUES (?1, ?2, ?3, ?4)"),
      document(database, "REPLACE INTO documents (key, document) VALUES (?1, ?2)"),
      archive(database,
              "REPLACE INTO archives (job, summary, ranks, frontier, timeline, iterations) "
              "VALUES (?1, ?2, ?3, ?4, ?5, ?6)"),
      remove_document(database, "DELETE FROM documents WHERE key = ?1") {}

StoreTables::Drops::Drops(Database& database)
    : reports(database, "DELETE FROM reports WHERE job = ?1 AND first_iteration <= ?2 AND last_iteration <= ?2"),
      plans(database, "DELETE FROM plans WHERE job = ?1 AND version <= ?2"),
      cells(database, "DELETE FROM cells WHERE job = ?1 AND rank = ?2 AND plan_version < ?3"),
      decisions(database, "DELETE FROM decisions WHERE job = ?1 AND id <= ?2") {}

StoreTables::Reads::Reads(Database& database)
    : jobs(database,
           "SELECT id, run, spec, state, created_s, finished_s FROM jobs WHERE finished_s IS NULL UNION ALL "
           "SELECT * FROM (SELECT id, run, spec, state, created_s, finished_s FROM jobs "
           "WHERE finished_s IS NOT NULL AND NOT EXISTS (SELECT 1 FROM archives WHERE job = id) "
           "ORDER BY finished_s DESC LIMIT ?1) ORDER BY created_s, id"),
      ranks(database, "SELECT rank, document FROM ranks WHERE job = ?1 ORDER BY rank"),
      reports(database,
              "SELECT * FROM (SELECT first_iteration, rank, last_iteration, document FROM reports "
              "WHERE job = ?1 ORDER BY first_iteration DESC, rank DESC LIMIT ?2) "
              "ORDER BY first_iteration, rank"),
      plans(database,
            "SELECT * FROM (SELECT version, document FROM plans WHERE job = ?1 ORDER BY version DESC LIMIT ?2) "
            "ORDER BY version"),
      cells(database, "SELECT rank, plan_version, document FROM cells WHERE job = ?1 ORDER BY plan_version, rank"),
      newest_decisions(database,
                       "SELECT * FROM (SELECT id, time_s, document FROM decisions WHERE job = ?1 "
                       "ORDER BY id DESC LIMIT ?2) ORDER BY id"),
      decisions(database, "SELECT id, time_s, document FROM decisions WHERE job = ?1 AND id > ?2 ORDER BY id LIMIT ?3"),
      documents(database, "SELECT key, document FROM documents ORDER BY key"),
      finished(database,
               "SELECT jobs.id, jobs.run, jobs.created_s, jobs.finished_s, archives.summary FROM jobs "
               "JOIN archives ON archives.job = jobs.id WHERE jobs.finished_s IS NOT NULL "
               "ORDER BY jobs.finished_s DESC LIMIT ?1"),
      archive(database,
              "SELECT archives.summary, jobs.spec, archives.ranks, archives.frontier, archives.timeline, "
              "archives.iterations FROM archives JOIN jobs ON jobs.id = archives.job WHERE archives.job = ?1") {}

StoreTables::Expiry::Expiry(Database& database)
    : next_job(database,
               "SELECT id, finished_s < ?1 FROM jobs WHERE finished_s IS NOT NULL AND "
               "((finished_s < ?1 AND EXISTS (SELECT 1 FROM archives WHERE job = id AND iterations <> '')) "
               "OR ((finished_s < ?1 OR EXISTS (SELECT 1 FROM archives WHERE job = id)) AND "
               "(EXISTS (SELECT 1 FROM ranks WHERE job = id) "
               "OR EXISTS (SELECT 1 FROM reports WHERE job = id) OR EXISTS (SELECT 1 FROM plans WHERE "
               "job = id) OR EXISTS (SELECT 1 FROM cells WHERE job = id)))) LIMIT 1"),
      archive(database, "UPDATE archives SET ranks = '', frontier = '', timeline = '', iterations = '' WHERE job = ?1"),
      reports(database,
              "DELETE FROM reports WHERE job = ?1 AND (first_iteration, rank) IN "
              "(SELECT first_iteration, rank FROM reports WHERE job = ?1 LIMIT ?2)"),
      plans(database, "DELETE FROM plans WHERE job = ?1"),
      cells(database, "DELETE FROM cells WHERE rowid IN (SELECT rowid FROM cells WHERE job = ?1 LIMIT ?2)"),
      ranks(database, "DELETE FROM ranks WHERE job = ?1") {}

StoreTables::StoreTables(Database& database, const StoreRetention& retention)
    : retention_(retention), write_(database), drop_(database), select_(database), expire_(database) {}

void StoreTables::put(const StoredJob& job) {
  write_.job.execute(job.id, job.run, job.spec, job.state, job.created_s, job.finished_s);
}

void StoreTables::put(const StoredReports& reports) {
  write_.reports.execute(reports.job, reports.first_iteration, reports.rank, reports.last_iteration, reports.document);
  drop_.reports.execute(reports.job, reports.reached.value_or(reports.last_iteration) - retention_.iterations);
}

void StoreTables::put(const StoredPlan& plan) {
  write_.plan.execute(plan.job, plan.version, plan.document);
  drop_.plans.execute(plan.job, plan.version - retention_.plans);
}

void StoreTables::put(const StoredCells& cells) {
  write_.cells.execute(cells.job, cells.rank, cells.plan_version, cells.document);
  drop_.cells.execute(cells.job, cells.rank, cells.sweep);
}

void StoreTables::put(const StoredDecision& decision) {
  write_.decision.execute(decision.job, decision.id, decision.time_s, decision.document);
  drop_.decisions.execute(decision.job, decision.id - retention_.decisions);
}

void StoreTables::put(const StoredArchive& archive) {
  write_.archive.execute(archive.job, archive.summary, archive.ranks, archive.frontier, archive.timeline,
                         archive.iterations);
}

void StoreTables::put(const StoreChange& change) {
  for (const StoredJob& job : change.jobs) put(job);
  for (const StoredRank& rank : change.ranks) write_.rank.execute(rank.job, rank.rank, rank.document);
  for (const StoredReports& reports : change.reports) put(reports);
  for (const StoredPlan& plan : change.plans) put(plan);
  for (const StoredCells& cells : change.cells) put(cells);
  for (const StoredDecision& decision : change.decisions) put(decision);
  for (const StoredDocument& document : change.documents) write_.document.execute(document.key, document.document);
  for (const std::string& key : change.removed_documents) write_.remove_document.execute(key);
  for (const StoredArchive& archive : change.archives) put(archive);
}

void StoreTables::load_jobs(StoreContents& contents) {
  Statement::Rows rows = select_.jobs.query(retention_.loaded_finished_jobs);
  while (rows.next()) {
    contents.jobs.push_back(
        {rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.number(4), rows.optional_number(5)});
  }
}

void StoreTables::load_finished(StoreContents& contents) {
  for (auto rows = select_.finished.query(retention_.loaded_finished_jobs); rows.next();) {
    contents.finished.push_back({rows.text(0), rows.text(1), rows.number(2), rows.number(3), rows.text(4)});
  }
}

void StoreTables::load_rows_of(const std::string& job, StoreContents& contents) {
  for (auto rows = select_.ranks.query(job); rows.next();) {
    contents.ranks.push_back({job, rows.small_integer(0), rows.text(1)});
  }
  for (auto rows = select_.reports.query(job, retention_.loaded_reports); rows.next();) {
    contents.reports.push_back({job, rows.small_integer(1), rows.integer(0), rows.integer(2), rows.text(3)});
  }
  for (auto rows = select_.plans.query(job, retention_.loaded_plans); rows.next();) {
    contents.plans.push_back({job, rows.small_integer(0), rows.text(1)});
  }
  for (auto rows = select_.cells.query(job); rows.next();) {
    contents.cells.push_back({job, rows.small_integer(0), rows.small_integer(1), rows.text(2)});
  }
}

void StoreTables::load_decisions_of(const std::string& job, StoreContents& contents) {
  for (auto rows = select_.newest_decisions.query(job, retention_.loaded_decisions); rows.next();) {
    contents.decisions.push_back({job, rows.integer(0), rows.number(1), rows.text(2)});
  }
}

StoreContents StoreTables::load() {
  StoreContents contents;
  load_jobs(contents);
  load_finished(contents);
  for (const StoredJob& job : contents.jobs) {
    if (!job.finished_s) load_rows_of(job.id, contents);
    load_decisions_of(job.id, contents);
  }
  for (auto rows = select_.documents.query(); rows.next();) contents.documents.push_back({rows.text(0), rows.text(1)});
  return contents;
}

std::vector<StoredDecision> StoreTables::decisions(std::string_view job, std::int64_t after, int limit) {
  std::vector<StoredDecision> found;
  for (auto rows = select_.decisions.query(job, after, limit); rows.next();) {
    found.push_back({std::string(job), rows.integer(0), rows.number(1), rows.text(2)});
  }
  return found;
}

std::optional<StoredArchive> StoreTables::archive(std::string_view job) {
  Statement::Rows rows = select_.archive.query(job);
  if (!rows.next()) return std::nullopt;
  return StoredArchive{.job = std::string(job),
                       .summary = rows.text(0),
                       .spec = rows.text(1),
                       .ranks = rows.text(2),
                       .frontier = rows.text(3),
                       .timeline = rows.text(4),
                       .iterations = rows.text(5)};
}

bool StoreTables::expire(double now_s) {
  std::string job;
  bool is_old = false;
  {
    Statement::Rows rows = expire_.next_job.query(now_s - retention_.finished_days * kDayS);
    if (!rows.next()) return false;
    job = rows.text(0);
    is_old = rows.integer(1) != 0;
  }
  if (expire_.reports.execute(job, kExpiredRows) == kExpiredRows) return true;
  if (expire_.cells.execute(job, kExpiredRows) == kExpiredRows) return true;
  expire_.plans.execute(job);
  expire_.ranks.execute(job);
  if (is_old) expire_.archive.execute(job);
  return true;
}

}  // namespace lowgear::server
