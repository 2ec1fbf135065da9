#include "server/store/store_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/core/numbers/number.h"

namespace lowgear::server {
namespace {

constexpr int kExpiredRows = 5'000;
constexpr double kDayS = 86'400;

/// Of a time that a request may name: seconds of a sensible range.
std::int64_t whole_seconds(double time_s) { return static_cast<std::int64_t>(std::clamp(time_s, -1e15, 1e15)); }

/// A place in a table by time: `TIME.ID`.
struct TimePlace {
  std::int64_t time_s = 0;
  std::int64_t id = -1;
};

/// Where a page begins; empty: `after` is no place.
std::optional<TimePlace> place_of(const ExportQuery& query) {
  const std::int64_t from_s = whole_seconds(query.from_s);
  if (query.after.empty()) return TimePlace{.time_s = from_s};
  const std::size_t dot = query.after.find('.');
  if (dot == std::string::npos) return std::nullopt;
  const auto time_s = parse_integer(std::string_view(query.after).substr(0, dot));
  const auto id = parse_integer(std::string_view(query.after).substr(dot + 1));
  if (!time_s || !id) return std::nullopt;
  return TimePlace{.time_s = std::max<std::int64_t>(from_s, *time_s), .id = *id};
}

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
      remove_document(database, "DELETE FROM documents WHERE key = ?1"),
      used_job(database,
               "INSERT OR IGNORE INTO used_jobs (job, run, name, user, gpu, simulated) "
               "VALUES (?1, ?2, ?3, ?4, ?5, ?6)"),
      usage(database,
            "INSERT INTO usage (job, hour_s, baseline_j, baseline_error_j, baseline_time_s, last_iteration, "
            "iterations, measured, time_s, energy_j, energy_variance, doubtful_j) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) "
            "ON CONFLICT (job, hour_s, baseline_j) DO UPDATE SET last_iteration = max(last_iteration, ?6), "
            "iterations = iterations + ?7, measured = measured + ?8, time_s = time_s + ?9, "
            "energy_j = energy_j + ?10, energy_variance = energy_variance + ?11, "
            "doubtful_j = doubtful_j + ?12"),
      // Iterations that are compared with the same baseline later are not added to these rows: -id is no baseline.
      uncompared(database,
                 "UPDATE usage SET baseline_time_s = 0, baseline_j = -id, baseline_error_j = 0, doubtful_j = energy_j "
                 "WHERE job = ?1"),
      budget_use(database,
                 "INSERT INTO budget_uses (time_s, budget, limit_w, planned_w, assumed_w, measured_w, measured_gpus, "
                 "held_w, kept) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)") {}

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
              "archives.iterations FROM archives JOIN jobs ON jobs.id = archives.job WHERE archives.job = ?1"),
      counted(database, "SELECT max(last_iteration) FROM usage WHERE job = ?1"),
      usage(database,
            "SELECT usage.id, hour_s, usage.job, run, name, user, gpu, simulated, iterations, measured, time_s, "
            "energy_j, energy_variance, baseline_time_s, CASE WHEN baseline_time_s > 0 THEN baseline_j ELSE 0 END, "
            "baseline_error_j, doubtful_j "
            "FROM usage JOIN used_jobs ON used_jobs.job = usage.job "
            "WHERE hour_s >= ?1 AND (hour_s, usage.id) > (?1, ?2) AND hour_s < ?3 ORDER BY hour_s, usage.id LIMIT ?4"),
      used_jobs(database,
                "SELECT used_jobs.job, used_jobs.run, name, user, gpu, simulated, created_s, finished_s, "
                "sum(iterations), sum(measured), sum(time_s), sum(energy_j) FROM (SELECT * FROM used_jobs "
                "WHERE job > ?1 ORDER BY job LIMIT ?2) AS used_jobs LEFT JOIN jobs ON jobs.id = used_jobs.job "
                "LEFT JOIN usage ON usage.job = used_jobs.job GROUP BY used_jobs.job ORDER BY used_jobs.job"),
      all_decisions(database,
                    "SELECT job, id, time_s, document FROM decisions WHERE (job, id) > (?1, ?2) "
                    "ORDER BY job, id LIMIT ?3"),
      budget_uses(database,
                  "SELECT id, time_s, budget, limit_w, planned_w, assumed_w, measured_w, measured_gpus, held_w, kept "
                  "FROM budget_uses WHERE time_s >= ?1 AND (time_s, id) > (?1, ?2) AND time_s < ?3 "
                  "ORDER BY time_s, id LIMIT ?4") {}

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
      ranks(database, "DELETE FROM ranks WHERE job = ?1"),
      usage(database,
            "DELETE FROM usage WHERE id IN (SELECT id FROM usage WHERE hour_s < ?1 ORDER BY hour_s LIMIT ?2)"),
      used_jobs(database,
                "DELETE FROM used_jobs WHERE NOT EXISTS (SELECT 1 FROM usage WHERE usage.job = used_jobs.job)"),
      budget_uses(database,
                  "DELETE FROM budget_uses WHERE id IN "
                  "(SELECT id FROM budget_uses WHERE time_s < ?1 ORDER BY time_s LIMIT ?2)") {}

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

void StoreTables::put(const StoredUsage& usage) {
  const usage::UsageRow& row = usage.row;
  if (usage.takes_savings_back) {
    write_.uncompared.execute(row.job);
    return;
  }
  write_.used_job.execute(row.job, row.run, row.name, row.user, row.gpu, row.simulated ? 1 : 0);
  write_.usage.execute(row.job, row.hour_s, row.baseline_energy_j, row.baseline_error_j, row.baseline_time_s,
                       usage.last_iteration, row.iterations, row.measured_iterations, row.time_s, row.energy_j,
                       row.energy_error_j * row.energy_error_j, row.doubtful_energy_j);
}

void StoreTables::put(const StoredBudgetUse& use) {
  write_.budget_use.execute(use.time_s, use.budget, use.limit_w, use.planned_w, use.assumed_w, use.measured_w,
                            use.measured_gpus, use.held_w, use.kept ? 1 : 0);
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
  for (const StoredUsage& usage : change.usage) put(usage);
  for (const StoredBudgetUse& use : change.budgets) put(use);
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
    if (!job.finished_s) {
      load_rows_of(job.id, contents);
      Statement::Rows counted = select_.counted.query(job.id);
      if (counted.next() && counted.optional_number(0)) contents.counted[job.id] = counted.integer(0);
    }
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

std::optional<ExportPage> StoreTables::page(const ExportQuery& query) {
  switch (query.table) {
    case ExportTable::usage:
      return usage_page(query);
    case ExportTable::jobs:
      return jobs_page(query);
    case ExportTable::decisions:
      return decisions_page(query);
    case ExportTable::budgets:
      return budgets_page(query);
  }
  return std::nullopt;
}

std::optional<ExportPage> StoreTables::usage_page(const ExportQuery& query) {
  const std::optional<TimePlace> place = place_of(query);
  if (!place) return std::nullopt;
  ExportPage page;
  for (auto rows = select_.usage.query(place->time_s, place->id, whole_seconds(query.to_s), query.limit);
       rows.next();) {
    page.hours.push_back({.hour_s = rows.integer(1),
                          .job = rows.text(2),
                          .run = rows.text(3),
                          .name = rows.text(4),
                          .user = rows.text(5),
                          .gpu = rows.text(6),
                          .simulated = rows.integer(7) != 0,
                          .iterations = rows.integer(8),
                          .measured_iterations = rows.integer(9),
                          .time_s = rows.number(10),
                          .energy_j = rows.number(11),
                          .energy_error_j = std::sqrt(rows.number(12)),
                          .doubtful_energy_j = rows.number(16),
                          .baseline_time_s = rows.number(13),
                          .baseline_energy_j = rows.number(14),
                          .baseline_error_j = rows.number(15)});
    page.next = fmt::format("{}.{}", rows.integer(1), rows.integer(0));
  }
  if (page.hours.size() < static_cast<std::size_t>(query.limit)) page.next.clear();
  return page;
}

/// Places are ids.
ExportPage StoreTables::jobs_page(const ExportQuery& query) {
  ExportPage page;
  int looked_at = 0;
  for (auto rows = select_.used_jobs.query(query.after, query.limit); rows.next();) {
    ++looked_at;
    page.next = rows.text(0);
    const std::optional<double> finished_s = rows.optional_number(7);
    if (rows.number(6) >= query.to_s || (finished_s && *finished_s < query.from_s)) continue;
    page.jobs.push_back({.job = rows.text(0),
                         .run = rows.text(1),
                         .name = rows.text(2),
                         .user = rows.text(3),
                         .gpu = rows.text(4),
                         .simulated = rows.integer(5) != 0,
                         .created_s = rows.number(6),
                         .finished_s = finished_s,
                         .iterations = rows.integer(8),
                         .measured_iterations = rows.integer(9),
                         .time_s = rows.number(10),
                         .energy_j = rows.number(11)});
  }
  if (looked_at < query.limit) page.next.clear();
  return page;
}

/// Places are `JOB.ID`.
std::optional<ExportPage> StoreTables::decisions_page(const ExportQuery& query) {
  const std::size_t dot = query.after.rfind('.');
  if (!query.after.empty() && dot == std::string::npos) return std::nullopt;
  const std::string after_job = query.after.empty() ? "" : query.after.substr(0, dot);
  const auto after_id =
      query.after.empty() ? std::optional<long long>(0) : parse_integer(std::string_view(query.after).substr(dot + 1));
  if (!after_id) return std::nullopt;
  ExportPage page;
  int looked_at = 0;
  for (auto rows = select_.all_decisions.query(after_job, std::int64_t{*after_id}, query.limit); rows.next();) {
    ++looked_at;
    page.next = fmt::format("{}.{}", rows.text(0), rows.integer(1));
    if (rows.number(2) < query.from_s || rows.number(2) >= query.to_s) continue;
    page.decisions.push_back({rows.text(0), rows.integer(1), rows.number(2), rows.text(3)});
  }
  if (looked_at < query.limit) page.next.clear();
  return page;
}

std::optional<ExportPage> StoreTables::budgets_page(const ExportQuery& query) {
  const std::optional<TimePlace> place = place_of(query);
  if (!place) return std::nullopt;
  ExportPage page;
  const std::int64_t to_s = whole_seconds(query.to_s);
  for (auto rows = select_.budget_uses.query(place->time_s, place->id, to_s, query.limit); rows.next();) {
    page.budgets.push_back({.time_s = rows.integer(1),
                            .budget = rows.text(2),
                            .limit_w = rows.number(3),
                            .planned_w = rows.number(4),
                            .assumed_w = rows.number(5),
                            .measured_w = rows.optional_number(6),
                            .measured_gpus = rows.integer(7),
                            .held_w = rows.optional_number(8),
                            .kept = rows.integer(9) != 0});
    page.next = fmt::format("{}.{}", rows.integer(1), rows.integer(0));
  }
  if (page.budgets.size() < static_cast<std::size_t>(query.limit)) page.next.clear();
  return page;
}

/// Some rows of times that are too old to be kept; returns whether there may be more.
bool StoreTables::expire_usage(double now_s) {
  const std::int64_t uses =
      expire_.budget_uses.execute(whole_seconds(now_s - retention_.budget_days * kDayS), kExpiredRows);
  if (uses == kExpiredRows) return true;
  const std::int64_t removed =
      expire_.usage.execute(whole_seconds(now_s - retention_.usage_days * kDayS), kExpiredRows);
  if (removed > 0 && removed < kExpiredRows) expire_.used_jobs.execute();
  return removed == kExpiredRows;
}

bool StoreTables::expire(double now_s) {
  std::string job;
  bool is_old = false;
  {
    Statement::Rows rows = expire_.next_job.query(now_s - retention_.finished_days * kDayS);
    if (!rows.next()) return expire_usage(now_s);
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
