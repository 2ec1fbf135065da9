#include "server/fleet/store_writes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/job/usage_count.h"

namespace lowgear::server {

namespace {

constexpr double kShortestRetryS = 1;
constexpr double kLongestRetryS = 60;
/// A row that is written, and removed in the same transaction, to learn whether the store takes something again.
constexpr std::string_view kProbeKey = "probe";

}  // namespace

Backoff<double> store_backoff() { return {kShortestRetryS, kLongestRetryS}; }

WatchedStore::WatchedStore(Store* store, std::function<double()> now_s, std::function<void(std::string_view)> log)
    : store_(store), now_s_(std::move(now_s)), log_(std::move(log)) {}

void WatchedStore::write(StoreChange change, std::function<void(StoreOutcome)> done) {
  ++writes_under_way_;
  store_->write(std::move(change), [this, done = std::move(done)](StoreOutcome outcome) {
    --writes_under_way_;
    note(outcome);
    if (done) done(outcome);
  });
}

void WatchedStore::note(StoreOutcome outcome) {
  const StoreOutcome before = std::exchange(health_, outcome);
  if (outcome == StoreOutcome::committed) {
    backoff_.reset();
  } else {
    probe_s_ = now_s_() + backoff_.next();
  }
  if (before == outcome || !log_) return;
  if (outcome == StoreOutcome::disk_full)
    log_("the disk of the state folder is full: running jobs continue, new ones are refused; free space there");
  if (before == StoreOutcome::disk_full) log_("the disk has space again");
  if (outcome == StoreOutcome::busy) log_("the disk is too slow, or another program holds the database");
}

void WatchedStore::probe() {
  if (health_ == StoreOutcome::committed || writes_under_way_ > 0 || now_s_() < probe_s_) return;
  StoreChange change;
  change.documents.push_back({std::string(kProbeKey), {}});
  change.removed_documents.emplace_back(kProbeKey);
  write(std::move(change), {});
}

void WatchedStore::read_decisions(std::string job, std::int64_t after, int limit,
                                  std::function<void(std::vector<StoredDecision>)> done) const {
  store_->read_decisions(std::move(job), after, limit, std::move(done));
}

void WatchedStore::read_archive(std::string job, std::function<void(std::optional<StoredArchive>)> done) const {
  store_->read_archive(std::move(job), std::move(done));
}

void WatchedStore::read_page(ExportQuery query, std::function<void(std::optional<ExportPage>)> done) const {
  store_->read_page(std::move(query), std::move(done));
}

namespace {

/// Moves rows in front of others.
template <typename Row>
void put_before(std::vector<Row>& rows, std::vector<Row>& earlier) {
  rows.insert(rows.begin(), std::move_iterator(earlier.begin()), std::move_iterator(earlier.end()));
}

template <typename Row>
void append(std::vector<Row>& rows, const std::vector<Row>& later) {
  rows.insert(rows.end(), later.begin(), later.end());
}

}  // namespace

JobWrites::Given JobWrites::give(const StoreChange& change) {
  ++given_;
  Given given{.jobs = {},
              .ranks = change.ranks,
              .reports = {},
              .plans = change.plans,
              .cells = change.cells,
              .decisions = change.decisions,
              .documents = change.documents,
              .removed_documents = {},
              .archives = {},
              .usage = change.usage,
              .budgets = {}};
  for (const StoredReports& reports : change.reports) {
    given.reports.push_back({.job = reports.job,
                             .rank = reports.rank,
                             .first_iteration = reports.first_iteration,
                             .last_iteration = reports.last_iteration,
                             .document = {}});
  }
  return given;
}

void JobWrites::answer(const Given& given, StoreOutcome outcome, double now_s) {
  ++answered_;
  if (outcome == StoreOutcome::committed) {
    backoff_.reset();
  } else {
    ++refusals_;
    retry_s_ = now_s + backoff_.next();
    has_refused_ = true;
    for (const StoredRank& rank : given.ranks) refused_ranks_.insert(rank.rank);
    for (const StoredReports& row : given.reports) {
      const auto [known, is_first] =
          refused_reports_.try_emplace(row.rank, std::pair(row.first_iteration, row.last_iteration));
      if (is_first) continue;
      known->second.first = std::min(known->second.first, row.first_iteration);
      known->second.second = std::max(known->second.second, row.last_iteration);
    }
    append(refused_.plans, given.plans);
    append(refused_.cells, given.cells);
    append(refused_.decisions, given.decisions);
    append(refused_.documents, given.documents);
    for (const StoredUsage& usage : given.usage) add_usage(refused_.usage, usage);
  }
  for (; !acks_.empty() && acks_.front().given <= answered_; acks_.pop_front()) {
    const PendingAck& ack = acks_.front();
    ack.on_committed(ack.refusals == refusals_            ? StoreOutcome::committed
                     : outcome == StoreOutcome::committed ? StoreOutcome::busy
                                                          : outcome);
  }
}

void JobWrites::acknowledge(OnCommitted on_committed) {
  if (all_answered()) return on_committed(StoreOutcome::committed);
  acks_.push_back({given_, refusals_, std::move(on_committed)});
}

void JobWrites::take_refused(StoreChange& change) {
  has_refused_ = false;
  refused_ranks_.clear();
  StoreChange refused = std::exchange(refused_, {});
  // A newer row of the same key is written after the older one.
  put_before(change.plans, refused.plans);
  put_before(change.cells, refused.cells);
  put_before(change.decisions, refused.decisions);
  put_before(change.documents, refused.documents);
  put_before(change.usage, refused.usage);
}

void JobWrites::add_repeated(std::vector<StoredReports> repeated, StoreChange& change) {
  for (StoredReports& row : repeated) {
    const auto refused = refused_reports_.find(row.rank);
    if (refused == refused_reports_.end()) continue;
    auto& [first, last] = refused->second;
    if (row.last_iteration < first || row.first_iteration > last) continue;
    // The rest comes with other requests.
    if (row.first_iteration <= first) first = row.last_iteration + 1;
    if (first > last) refused_reports_.erase(refused);
    change.reports.push_back(std::move(row));
  }
}

}  // namespace lowgear::server
