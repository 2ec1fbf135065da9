#include "server/fleet/job_writes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/parts/usage_count.h"

namespace lowgear::server {
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
    ack.settled(ack.refusals == refusals_            ? StoreOutcome::committed
                : outcome == StoreOutcome::committed ? StoreOutcome::busy
                                                     : outcome);
  }
}

void JobWrites::acknowledge(Settled settled) {
  if (all_answered()) return settled(StoreOutcome::committed);
  acks_.push_back({given_, refusals_, std::move(settled)});
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
