#include "server/fleet/watched_store.h"

#include <utility>

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
  if (outcome == StoreOutcome::disk_full) log_("the disk is full: running jobs continue, new ones are refused");
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

}  // namespace lowgear::server
