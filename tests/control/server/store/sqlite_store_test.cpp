#include "control/server/store/sqlite_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "control/server/test_loop.h"

namespace lowgear::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

StoredJob job(const std::string& id, std::optional<double> finished_s = {}) {
  return {.id = id, .run = "run of " + id, .spec = "{}", .state = "{}", .created_s = 1, .finished_s = finished_s};
}

class SqliteStoreTest : public testing::Test {
 protected:
  SqliteStoreTest() {
    options_.log = [this](const std::string& line) {
      const std::scoped_lock lock(mutex_);
      log_.push_back(line);
    };
  }
  SqliteStore& open() {
    store_.reset();
    store_ = std::make_unique<SqliteStore>(folder_ / "state", loop_.post(), options_);
    return *store_;
  }
  /// Writes and waits for the outcome.
  StoreOutcome write(StoreChange change) {
    std::optional<StoreOutcome> outcome;
    store_->write(std::move(change), [&](StoreOutcome said) { outcome = said; });
    EXPECT_TRUE(loop_.run_until([&] { return outcome.has_value(); }));
    return outcome.value_or(StoreOutcome::failed);
  }
  std::vector<std::string> log() {
    const std::scoped_lock lock(mutex_);
    return log_;
  }

  TemporaryFolder folder_;
  TestLoop loop_;
  SqliteStoreOptions options_;
  std::mutex mutex_;
  std::vector<std::string> log_;
  std::unique_ptr<SqliteStore> store_;
};

TEST_F(SqliteStoreTest, KeepsEverythingOfAChange) {
  open();
  StoreChange change;
  change.jobs = {job("j-1")};
  change.ranks = {{"j-1", 3, "rank"}};
  change.reports = {{"j-1", 3, 10, 12, "reports"}};
  change.plans = {{"j-1", 2, "plan"}};
  change.cells = {{"j-1", 3, 1, "cells"}};
  change.decisions = {{"j-1", 1, 5.5, "decision"}};
  change.documents = {{"profile/a", "profile"}};
  EXPECT_EQ(write(change), StoreOutcome::committed);
  const StoreContents contents = open().load();
  ASSERT_THAT(contents.jobs, SizeIs(1));
  EXPECT_EQ(contents.jobs[0].run, "run of j-1");
  EXPECT_EQ(contents.jobs[0].finished_s, std::nullopt);
  ASSERT_THAT(contents.ranks, SizeIs(1));
  EXPECT_EQ(contents.ranks[0].rank, 3);
  EXPECT_EQ(contents.ranks[0].document, "rank");
  ASSERT_THAT(contents.reports, SizeIs(1));
  EXPECT_EQ(contents.reports[0].rank, 3);
  EXPECT_EQ(contents.reports[0].first_iteration, 10);
  EXPECT_EQ(contents.reports[0].last_iteration, 12);
  EXPECT_EQ(contents.reports[0].document, "reports");
  ASSERT_THAT(contents.plans, SizeIs(1));
  EXPECT_EQ(contents.plans[0].version, 2);
  ASSERT_THAT(contents.cells, SizeIs(1));
  EXPECT_EQ(contents.cells[0].rank, 3);
  EXPECT_EQ(contents.cells[0].plan_version, 1);
  ASSERT_THAT(contents.decisions, SizeIs(1));
  EXPECT_EQ(contents.decisions[0].time_s, 5.5);
  ASSERT_THAT(contents.documents, SizeIs(1));
  EXPECT_EQ(contents.documents[0].key, "profile/a");
}

TEST_F(SqliteStoreTest, RemovesDocuments) {
  open();
  StoreChange change;
  change.documents = {{"signal/a", "a"}, {"signal/b", "b"}};
  EXPECT_EQ(write(change), StoreOutcome::committed);
  StoreChange removal;
  removal.removed_documents = {"signal/a", "signal/never"};
  EXPECT_EQ(write(removal), StoreOutcome::committed);
  const StoreContents contents = open().load();
  ASSERT_THAT(contents.documents, SizeIs(1));
  EXPECT_EQ(contents.documents[0].key, "signal/b");
}

TEST_F(SqliteStoreTest, ReplacesRowsOfTheSameKey) {
  open();
  StoreChange change;
  change.jobs = {job("j-1")};
  change.ranks = {{"j-1", 0, "old"}};
  change.reports = {{"j-1", 0, 5, 5, "old"}};
  EXPECT_EQ(write(change), StoreOutcome::committed);
  change.ranks[0].document = "new";
  change.reports[0].document = "new";
  change.jobs[0].state = "new";
  EXPECT_EQ(write(change), StoreOutcome::committed);
  const StoreContents contents = open().load();
  ASSERT_THAT(contents.jobs, SizeIs(1));
  EXPECT_EQ(contents.jobs[0].state, "new");
  ASSERT_THAT(contents.ranks, SizeIs(1));
  EXPECT_EQ(contents.ranks[0].document, "new");
  ASSERT_THAT(contents.reports, SizeIs(1));
  EXPECT_EQ(contents.reports[0].document, "new");
}

TEST_F(SqliteStoreTest, TellsOutcomesInOrderAndNeverAtOnce) {
  SqliteStore& store = open();
  std::vector<int> told;
  for (int i = 0; i < 500; ++i) {
    StoreChange change;
    change.ranks = {{"j-1", i, "r"}};
    store.write(std::move(change), [&told, i](StoreOutcome) { told.push_back(i); });
  }
  EXPECT_THAT(told, IsEmpty());
  ASSERT_TRUE(loop_.run_until([&] { return told.size() == 500; }));
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(store.statistics().changes, 500U);
  EXPECT_LT(store.statistics().commits, 500U);  // committed together
  EXPECT_EQ(store.statistics().queued_bytes, 0U);
}

TEST_F(SqliteStoreTest, TakesTheNameOfARunAgain) {
  SqliteStore& store = open();
  std::vector<StoreOutcome> outcomes;
  for (const char* id : {"j-1", "j-2"}) {
    StoreChange change;
    change.jobs = {job(id)};
    change.jobs[0].run = "again";
    store.write(std::move(change), [&](StoreOutcome outcome) { outcomes.push_back(outcome); });
  }
  ASSERT_TRUE(loop_.run_until([&] { return outcomes.size() == 2; }));
  EXPECT_THAT(outcomes, ElementsAre(StoreOutcome::committed, StoreOutcome::committed));
}

TEST_F(SqliteStoreTest, OneBadChangeDoesNotFailItsNeighbours) {
  SqliteStore& store = open();
  std::vector<StoreOutcome> outcomes;
  for (const double created_s : {1.0, 2.0, std::nan(""), 3.0, std::nan("")}) {
    StoredJob next = job(fmt::format("j-{}", created_s));
    next.created_s = created_s;
    StoreChange change;
    change.decisions = {{next.id, 1, 0, "d"}};
    change.jobs = {next};
    store.write(std::move(change), [&](StoreOutcome outcome) { outcomes.push_back(outcome); });
  }
  ASSERT_TRUE(loop_.run_until([&] { return outcomes.size() == 5; }));
  EXPECT_THAT(outcomes, ElementsAre(StoreOutcome::committed, StoreOutcome::committed, StoreOutcome::failed,
                                    StoreOutcome::committed, StoreOutcome::failed));
  const StoreContents contents = open().load();
  EXPECT_THAT(contents.jobs, SizeIs(3));
  EXPECT_THAT(contents.decisions, SizeIs(3));
  EXPECT_THAT(log(), ElementsAre(HasSubstr("NOT NULL"), HasSubstr("NOT NULL")));
}

TEST_F(SqliteStoreTest, RefusesWhatTheQueueCannotHold) {
  options_.queue_bytes = 100'000;
  SqliteStore& store = open();
  std::vector<StoreOutcome> outcomes;
  // Each is taken when nothing else waits, and together they are far too many.
  for (int i = 0; i < 50; ++i) {
    StoreChange change;
    change.documents = {{"k" + std::to_string(i), std::string(1'000'000, 'x')}};
    store.write(std::move(change), [&](StoreOutcome outcome) { outcomes.push_back(outcome); });
  }
  ASSERT_TRUE(loop_.run_until([&] { return outcomes.size() == 50; }));
  const auto busy = std::ranges::count(outcomes, StoreOutcome::busy);
  const auto committed = std::ranges::count(outcomes, StoreOutcome::committed);
  EXPECT_GT(busy, 0);
  EXPECT_GT(committed, 0);
  EXPECT_EQ(busy + committed, 50);
  EXPECT_THAT(open().load().documents, SizeIs(committed));
}

TEST_F(SqliteStoreTest, WritesEverythingBeforeItCloses) {
  SqliteStore& store = open();
  int committed = 0;
  for (int i = 0; i < 200; ++i) {
    StoreChange change;
    change.ranks = {{"j-1", i, "r"}};
    if (i == 0) change.jobs = {job("j-1")};
    store.write(std::move(change), [&](StoreOutcome outcome) { committed += outcome == StoreOutcome::committed; });
  }
  store.close();
  EXPECT_TRUE(loop_.run_until([&] { return committed == 200; }));
  EXPECT_EQ(write({}), StoreOutcome::failed);
  EXPECT_THROW((void)store.load(), Error);
  EXPECT_THAT(open().load().ranks, SizeIs(200));
}

TEST_F(SqliteStoreTest, ReadsDecisionsBehindWhatWasWritten) {
  SqliteStore& store = open();
  StoreChange change;
  for (int id = 1; id <= 5; ++id) change.decisions.push_back({"j-1", id, id * 1.0, "d" + std::to_string(id)});
  store.write(change, {});
  std::vector<std::int64_t> ids;
  bool read = false;
  store.read_decisions("j-1", 1, 3, [&](std::vector<StoredDecision> decisions) {
    for (const StoredDecision& decision : decisions) ids.push_back(decision.id);
    read = true;
  });
  ASSERT_TRUE(loop_.run_until([&] { return read; }));
  EXPECT_THAT(ids, ElementsAre(2, 3, 4));
  store.close();
  read = false;
  store.read_decisions("j-1", 0, 3, [&](const std::vector<StoredDecision>& decisions) {
    EXPECT_THAT(decisions, IsEmpty());
    read = true;
  });
  EXPECT_TRUE(loop_.run_until([&] { return read; }));
}

TEST_F(SqliteStoreTest, KeepsTheNewestDecisionsOfAJob) {
  options_.retention.decisions = 3;
  SqliteStore& store = open();
  StoreChange change;
  for (int id = 1; id <= 5; ++id) change.decisions.push_back({"j-1", id, 1, "d"});
  change.decisions.push_back({"j-2", 1, 1, "d"});
  ASSERT_EQ(write(change), StoreOutcome::committed);
  std::map<std::string, std::vector<std::int64_t>> ids;
  int read = 0;
  for (const char* job : {"j-1", "j-2"}) {
    store.read_decisions(job, 0, 10, [&](const std::vector<StoredDecision>& decisions) {
      for (const StoredDecision& decision : decisions) ids[decision.job].push_back(decision.id);
      ++read;
    });
  }
  ASSERT_TRUE(loop_.run_until([&] { return read == 2; }));
  EXPECT_THAT(ids["j-1"], ElementsAre(3, 4, 5));
  EXPECT_THAT(ids["j-2"], ElementsAre(1));
}

TEST_F(SqliteStoreTest, KeepsTheNewestReportsAndPlans) {
  options_.retention.iterations = 10;
  options_.retention.plans = 3;
  open();
  for (int iteration = 0; iteration < 40; ++iteration) {
    StoreChange change;
    if (iteration == 0) change.jobs = {job("j-1"), job("j-2")};
    for (int rank = 0; rank < 3; ++rank) change.reports.push_back({"j-1", rank, iteration, iteration, "r"});
    change.plans = {{"j-1", iteration, "p"}};
    ASSERT_EQ(write(change), StoreOutcome::committed);
  }
  StoreChange other;
  other.reports = {{"j-2", 0, 1, 1, "r"}};
  ASSERT_EQ(write(other), StoreOutcome::committed);
  const StoreContents contents = open().load();
  ASSERT_THAT(contents.reports, SizeIs(31));
  EXPECT_EQ(contents.reports[0].first_iteration, 30);
  EXPECT_EQ(contents.reports[29].first_iteration, 39);
  EXPECT_EQ(contents.reports[30].job, "j-2");
  ASSERT_THAT(contents.plans, SizeIs(3));
  EXPECT_EQ(contents.plans[0].version, 37);
}

TEST_F(SqliteStoreTest, KeepsTheCellsOfTheNewestSweepOfARank) {
  open();
  StoreChange change;
  change.jobs = {job("j-1")};
  for (const int rank : {0, 1}) {
    for (const int version : {2, 3}) change.cells.push_back({"j-1", rank, version, "of the first", 2});
  }
  ASSERT_EQ(write(change), StoreOutcome::committed);
  EXPECT_THAT(open().load().cells, SizeIs(4));
  change.cells = {{"j-1", 1, 5, "of the second", 4}, {"j-2", 0, 9, "of another job", 9}};
  ASSERT_EQ(write(change), StoreOutcome::committed);
  std::vector<std::pair<int, int>> kept;
  for (const StoredCells& row : open().load().cells) kept.emplace_back(row.rank, row.plan_version);
  EXPECT_THAT(kept, ElementsAre(std::pair(0, 2), std::pair(0, 3), std::pair(1, 5)));
}

TEST_F(SqliteStoreTest, WritesForAChangeThatLeavesNothing) {
  open();
  StoreChange first;
  first.documents = {{"signal/a", "a"}};
  ASSERT_EQ(write(first), StoreOutcome::committed);
  const auto log_bytes = [&] { return std::filesystem::file_size(folder_ / "state" / "server.db-wal"); };
  const auto before = log_bytes();
  StoreChange probe;
  probe.documents = {{"probe", {}}};
  probe.removed_documents = {"probe"};
  ASSERT_EQ(write(probe), StoreOutcome::committed);
  EXPECT_GT(log_bytes(), before);
  EXPECT_THAT(open().load().documents, SizeIs(1));
}

TEST_F(SqliteStoreTest, LoadsOnlyTheNewest) {
  options_.retention.loaded_reports = 4;
  options_.retention.loaded_plans = 1;
  options_.retention.loaded_decisions = 2;
  options_.retention.loaded_finished_jobs = 1;
  open();
  StoreChange change;
  change.jobs = {job("j-1"), job("j-2", 10), job("j-3", 20)};
  for (int i = 0; i < 10; ++i) {
    change.reports.push_back({"j-1", i % 2, i / 2, i / 2, std::to_string(i)});
    change.plans.push_back({"j-1", i, "p"});
    change.decisions.push_back({"j-1", i, 0, "d"});
  }
  change.ranks = {{"j-3", 0, "r"}};
  ASSERT_EQ(write(change), StoreOutcome::committed);
  const StoreContents contents = open().load();
  ASSERT_THAT(contents.jobs, SizeIs(2));
  EXPECT_EQ(contents.jobs[1].id, "j-3");
  ASSERT_THAT(contents.reports, SizeIs(4));
  EXPECT_EQ(contents.reports[0].document, "6");
  EXPECT_EQ(contents.reports[3].document, "9");
  ASSERT_THAT(contents.plans, SizeIs(1));
  EXPECT_EQ(contents.plans[0].version, 9);
  ASSERT_THAT(contents.decisions, SizeIs(2));
  EXPECT_EQ(contents.decisions[0].id, 8);
  EXPECT_THAT(contents.ranks, IsEmpty());
}

TEST_F(SqliteStoreTest, RemovesWhatBelongsToJobsThatFinishedLongAgo) {
  constexpr double kNowS = 100 * 86'400.0;
  options_.retention.finished_days = 30;
  options_.now_s = [] { return kNowS; };
  open();
  StoreChange change;
  change.jobs = {job("j-old", kNowS - 31 * 86'400.0), job("j-new", kNowS - 29 * 86'400.0), job("j-now")};
  for (const char* id : {"j-old", "j-new", "j-now"}) {
    change.ranks.push_back({id, 0, "r"});
    for (int i = 0; i < 6'000; ++i) change.reports.push_back({id, i, 1, 1, "r"});
    change.plans.push_back({id, 1, "p"});
    change.cells.push_back({id, 0, 1, "c"});
    change.decisions.push_back({id, 1, 1, "d"});
  }
  ASSERT_EQ(write(change), StoreOutcome::committed);
  open().close();  // looks once when it starts
  const auto path = folder_ / "state" / "server.db";
  const auto count = [&](const std::string& what) {
    return Database(path, Database::Sharing::shared).integer(("SELECT count(*) FROM " + what).c_str());
  };
  // The rest of so many rows goes in further steps.
  for (int step = 0; step < 20 && count("ranks") == 3; ++step) open().close();
  for (const char* table : {"ranks", "reports", "plans", "cells"}) {
    EXPECT_EQ(count(std::string(table) + " WHERE job = 'j-old'"), 0) << table;
    EXPECT_GT(count(std::string(table) + " WHERE job = 'j-new'"), 0) << table;
    EXPECT_GT(count(std::string(table) + " WHERE job = 'j-now'"), 0) << table;
  }
  EXPECT_EQ(count("jobs"), 3);
  EXPECT_EQ(count("decisions"), 3);
}

StoredArchive archive(const std::string& id) {
  return {.job = id, .summary = "s", .spec = {}, .ranks = "r", .frontier = "f", .timeline = "t", .iterations = "i"};
}

TEST_F(SqliteStoreTest, KeepsAnArchiveInPlaceOfWhatItStandsFor) {
  open();
  StoreChange change;
  change.jobs = {job("j-1", 10), job("j-2", 20), job("j-3")};
  for (const char* id : {"j-1", "j-2", "j-3"}) {
    change.ranks.push_back({id, 0, "r"});
    for (int i = 0; i < 6'000; ++i) change.reports.push_back({id, i, 1, 1, "r"});
    change.plans.push_back({id, 1, "p"});
    change.decisions.push_back({id, 1, 1, "d"});
  }
  change.archives = {archive("j-1")};
  ASSERT_EQ(write(change), StoreOutcome::committed);
  std::optional<std::optional<StoredArchive>> read;
  const auto read_archive = [&](const std::string& id) {
    read.reset();
    store_->read_archive(id, [&](const std::optional<StoredArchive>& found) { read = found; });
    EXPECT_TRUE(loop_.run_until([&] { return read.has_value(); }));
    return read.value_or(std::nullopt);
  };
  const auto found = read_archive("j-1");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->spec, "{}");
  EXPECT_EQ(found->ranks + found->frontier + found->timeline + found->iterations, "rfti");
  EXPECT_FALSE(read_archive("j-2"));
  const StoreContents contents = open().load();
  ASSERT_THAT(contents.finished, SizeIs(1));
  EXPECT_EQ(contents.finished[0].run, "run of j-1");
  EXPECT_EQ(contents.finished[0].summary, "s");
  EXPECT_THAT(contents.jobs, SizeIs(2));
  store_->close();
  const auto count = [&](const std::string& what) {
    return Database(folder_ / "state" / "server.db", Database::Sharing::shared)
        .integer(("SELECT count(*) FROM " + what).c_str());
  };
  for (int step = 0; step < 20 && count("ranks") == 3; ++step) open().close();
  for (const char* table : {"ranks", "reports", "plans"}) {
    EXPECT_EQ(count(std::string(table) + " WHERE job = 'j-1'"), 0) << table;
    EXPECT_GT(count(std::string(table) + " WHERE job = 'j-3'"), 0) << table;
  }
  EXPECT_EQ(count("decisions"), 3);
}

TEST_F(SqliteStoreTest, KeepsTheSummaryOfAnArchiveThatHasExpired) {
  constexpr double kNowS = 100 * 86'400.0;
  options_.now_s = [] { return kNowS; };
  open();
  StoreChange change;
  change.jobs = {job("j-1", kNowS - 31 * 86'400.0), job("j-2", kNowS - 29 * 86'400.0)};
  change.archives = {archive("j-1"), archive("j-2")};
  ASSERT_EQ(write(change), StoreOutcome::committed);
  for (int start = 0; start < 2; ++start) open().close();  // looks once when it starts
  std::optional<std::optional<StoredArchive>> read;
  open().read_archive("j-1", [&](const std::optional<StoredArchive>& found) { read = found; });
  ASSERT_TRUE(loop_.run_until([&] { return read.has_value(); }));
  EXPECT_EQ((*read)->summary, "s");
  EXPECT_EQ((*read)->ranks + (*read)->iterations, "");
  read.reset();
  store_->read_archive("j-2", [&](const std::optional<StoredArchive>& found) { read = found; });
  ASSERT_TRUE(loop_.run_until([&] { return read.has_value(); }));
  EXPECT_EQ((*read)->iterations, "i");
}

TEST_F(SqliteStoreTest, IsBusyWhileAnotherProgramHoldsTheFile) {
  open();
  {
    Database other(folder_ / "state" / "server.db", Database::Sharing::shared);
    const Transaction held(other);
    StoreChange change;
    change.jobs = {job("j-1")};
    EXPECT_EQ(write(change), StoreOutcome::busy);
  }
  StoreChange change;
  change.jobs = {job("j-1")};
  EXPECT_EQ(write(change), StoreOutcome::committed);
}

TEST_F(SqliteStoreTest, ClosesInTimeWhileAnotherProgramHoldsTheFile) {
  options_.close_patience = std::chrono::milliseconds(100);
  SqliteStore& store = open();
  Database other(folder_ / "state" / "server.db", Database::Sharing::shared);
  const Transaction held(other);
  int busy = 0;
  for (int i = 0; i < 5; ++i) {
    StoreChange change;  // a transaction each
    change.documents = {{"k" + std::to_string(i), std::string(std::size_t{9} << 20U, 'x')}};
    store.write(std::move(change), [&](StoreOutcome outcome) { busy += outcome == StoreOutcome::busy; });
  }
  const auto begun = std::chrono::steady_clock::now();
  store.close();
  // A transaction waits for 5 s.
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(15));
  EXPECT_TRUE(loop_.run_until([&] { return busy == 5; }));
  EXPECT_THAT(log(), testing::Contains(HasSubstr("are not written")));
}

TEST_F(SqliteStoreTest, SaysWhatToDoAboutADamagedFile) {
  open().close();
  store_.reset();
  write_file_atomically(folder_ / "state" / "server.db", std::string(100'000, 'x'));
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("restore a copy"));
}

TEST_F(SqliteStoreTest, RefusesASecondStoreOnTheFolder) {
  open();
  EXPECT_THAT(error_of([&] { const SqliteStore second(folder_ / "state", loop_.post()); }),
              HasSubstr("uses this state folder"));
}

}  // namespace
}  // namespace lowgear::server
