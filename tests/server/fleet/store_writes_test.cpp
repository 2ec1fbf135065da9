#include "server/fleet/store_writes.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace lowgear::server {
namespace {

constexpr StoreOutcome kCommitted = StoreOutcome::committed;

class JobWritesTest : public testing::Test {
 protected:
  static StoreChange reports(int rank, std::int64_t first = 0, std::int64_t last = 0) {
    StoreChange change;
    change.reports.push_back(
        {.job = "j", .rank = rank, .first_iteration = first, .last_iteration = last, .document = "{}"});
    return change;
  }
  static StoreChange decision(std::int64_t id) {
    StoreChange change;
    change.decisions.push_back({.job = "j", .id = id, .document = "{}"});
    return change;
  }
  OnCommitted into(std::optional<StoreOutcome>& outcome) {
    return [&outcome](StoreOutcome reported) { outcome = reported; };
  }

  double now_s = 1e9;
  JobWrites writes;
};

TEST_F(JobWritesTest, AcknowledgesAtOnceWhenNothingIsUnderWay) {
  std::optional<StoreOutcome> outcome;
  writes.acknowledge(into(outcome));
  EXPECT_EQ(outcome, kCommitted);
}

TEST_F(JobWritesTest, AcknowledgesOnceAllThatWasGivenBeforeIsAnswered) {
  const auto first = writes.give(reports(0));
  const auto second = writes.give(reports(1));
  std::optional<StoreOutcome> outcome;
  writes.acknowledge(into(outcome));
  const auto third = writes.give(reports(2));
  writes.answer(first, kCommitted, now_s);
  EXPECT_FALSE(outcome);
  writes.answer(second, kCommitted, now_s);
  EXPECT_EQ(outcome, kCommitted);
  EXPECT_FALSE(writes.all_answered());
  writes.answer(third, kCommitted, now_s);
  EXPECT_TRUE(writes.all_answered());
}

TEST_F(JobWritesTest, ReportsARefusalToAllWhoWaitForIt) {
  const auto first = writes.give(reports(0));
  const auto second = writes.give(reports(1));
  std::optional<StoreOutcome> outcome;
  writes.acknowledge(into(outcome));
  writes.answer(first, StoreOutcome::disk_full, now_s);
  writes.answer(second, kCommitted, now_s);
  EXPECT_EQ(outcome, StoreOutcome::busy);  // to be sent again
}

TEST_F(JobWritesTest, WritesRefusedRowsBeforeNewerOnes) {
  writes.answer(writes.give(decision(1)), StoreOutcome::failed, now_s);
  EXPECT_TRUE(writes.has_refused());
  StoreChange next = decision(2);
  writes.take_refused(next);
  ASSERT_EQ(next.decisions.size(), 2U);
  EXPECT_EQ(next.decisions[0].id, 1);
  EXPECT_FALSE(writes.has_refused());
  StoreChange last;
  writes.take_refused(last);
  EXPECT_TRUE(last.empty());
}

TEST_F(JobWritesTest, NamesRanksWhoseRowsHaveToBeWrittenAnew) {
  StoreChange change;
  change.ranks.push_back({.job = "j", .rank = 3, .document = "old"});
  writes.answer(writes.give(change), StoreOutcome::busy, now_s);
  EXPECT_EQ(writes.refused_ranks(), std::set<int>{3});
  StoreChange next;
  writes.take_refused(next);
  EXPECT_TRUE(next.ranks.empty());
  EXPECT_TRUE(writes.refused_ranks().empty());
}

TEST_F(JobWritesTest, TakesRepeatedReportsOnlyWhereTheyWereRefused) {
  writes.answer(writes.give(reports(1)), StoreOutcome::busy, now_s);
  for (const std::size_t written : {1U, 0U}) {
    StoreChange change;
    writes.add_repeated({reports(0).reports[0], reports(1).reports[0]}, change);
    ASSERT_EQ(change.reports.size(), written);
    for (const StoredReports& row : change.reports) EXPECT_EQ(row.rank, 1);
  }
}

TEST_F(JobWritesTest, TakesAllRefusedReportsThatARankRepeatsInParts) {
  writes.answer(writes.give(reports(1, 5, 7)), StoreOutcome::busy, now_s);
  writes.answer(writes.give(reports(1, 8, 20)), StoreOutcome::disk_full, now_s);
  StoreChange change = reports(1, 21, 30);  // the rank has continued
  for (const auto& [first, last] : {std::pair(1, 4), std::pair(5, 12), std::pair(13, 20), std::pair(5, 20)}) {
    writes.add_repeated(reports(1, first, last).reports, change);
  }
  ASSERT_EQ(change.reports.size(), 3U);
  EXPECT_EQ(change.reports[1].first_iteration, 5);
  EXPECT_EQ(change.reports[2].first_iteration, 13);
}

TEST_F(JobWritesTest, AddsRefusedUsageToWhatIsWrittenNext) {
  const auto used = [](std::int64_t iteration) {
    StoreChange change;
    change.usage.push_back({.row = {}, .last_iteration = iteration});
    change.usage.back().row.iterations = 1;
    return change;
  };
  const auto first = writes.give(used(0));
  const auto second = writes.give(used(1));
  const auto third = writes.give(used(2));
  writes.answer(first, StoreOutcome::disk_full, now_s);
  writes.answer(second, kCommitted, now_s);
  writes.answer(third, StoreOutcome::busy, now_s);
  StoreChange next = used(3);
  writes.take_refused(next);
  ASSERT_EQ(next.usage.size(), 2U);
  EXPECT_EQ(next.usage[0].row.iterations, 2);  // of the first and the third, in one row
  EXPECT_EQ(next.usage[0].last_iteration, 2);
  EXPECT_EQ(next.usage[1].last_iteration, 3);
  StoreChange later;
  writes.take_refused(later);
  EXPECT_TRUE(later.usage.empty());
}

TEST_F(JobWritesTest, RetriesLessAndLessOften) {
  EXPECT_TRUE(writes.is_due(now_s));
  double waited_s = 0;
  for (int i = 0; i < 10; ++i) {
    writes.answer(writes.give(decision(i)), StoreOutcome::failed, now_s);
    EXPECT_FALSE(writes.is_due(now_s + waited_s));
    double next_s = 0;
    while (!writes.is_due(now_s + next_s)) next_s += 1;
    EXPECT_GE(next_s, waited_s);
    waited_s = next_s - 1;
    now_s += next_s;
  }
  EXPECT_EQ(waited_s, 59);
  writes.answer(writes.give(decision(10)), kCommitted, now_s);
  writes.answer(writes.give(decision(11)), StoreOutcome::failed, now_s);
  EXPECT_TRUE(writes.is_due(now_s + 1));
}

}  // namespace
}  // namespace lowgear::server
