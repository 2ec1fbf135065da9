#include "server/store/sqlite_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "server/test_loop.h"

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
  ExportPage read(const ExportQuery& query) {
    std::optional<ExportPage> page;
    bool done = false;
    store_->read_page(query, [&](std::optional<ExportPage> said) {
      page = std::move(said);
      done = true;
    });
    EXPECT_TRUE(loop_.run_until([&] { return done; }));
    EXPECT_TRUE(page.has_value());
    return page.value_or(ExportPage{});
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

TEST_F(SqliteStoreTest, ReadsDecisionsAfterWhatWasWritten) {
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
    EXPECT_EQ(write(change), StoreOutcome::busy);
  }
  EXPECT_THAT(log(), SizeIs(1)) << "the same, once";
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
  store.close();
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

StoredUsage usage_of(const std::string& job, std::int64_t hour, double baseline_j, std::int64_t last_iteration) {
  StoredUsage used;
  used.row.job = job;
  used.row.name = "name of " + job;
  used.row.user = "ada";
  used.row.hour_s = hour * usage::kHourS;
  used.row.iterations = used.row.measured_iterations = 2;
  used.row.time_s = 3;
  used.row.energy_j = 100;
  used.row.energy_error_j = 4;
  used.row.doubtful_energy_j = 10;
  used.row.baseline_energy_j = baseline_j;
  used.row.baseline_time_s = baseline_j > 0 ? 1 : 0;
  used.last_iteration = last_iteration;
  return used;
}

TEST_F(SqliteStoreTest, AddsUsageUpByHourAndBaseline) {
  options_.now_s = [] { return 10'000.0; };
  open();
  StoreChange change;
  change.jobs = {job("j-1"), job("j-2", 9'000.0)};
  change.usage = {usage_of("j-1", 1, 0, 1), usage_of("j-1", 1, 90, 3), usage_of("j-2", 1, 0, 1)};
  EXPECT_EQ(write(change), StoreOutcome::committed);
  StoreChange more;
  more.usage = {usage_of("j-1", 1, 90, 5), usage_of("j-1", 2, 90, 7)};
  EXPECT_EQ(write(more), StoreOutcome::committed);
  EXPECT_THAT(open().load().counted, ElementsAre(testing::Pair("j-1", 7)));  // j-2 has finished
  const ExportPage page = read({.table = ExportTable::usage, .from_s = 0, .to_s = 1e9, .after = {}, .limit = 100});
  ASSERT_THAT(page.hours, SizeIs(4));
  EXPECT_EQ(page.next, "");
  EXPECT_EQ(page.hours[1].iterations, 4);
  EXPECT_EQ(page.hours[1].energy_j, 200);
  EXPECT_EQ(page.hours[1].doubtful_energy_j, 20);
  EXPECT_DOUBLE_EQ(page.hours[1].energy_error_j, std::hypot(4, 4));
  EXPECT_EQ(page.hours[1].baseline_energy_j, 90);
  EXPECT_EQ(page.hours[1].name, "name of j-1");
  EXPECT_EQ(page.hours[1].user, "ada");
  EXPECT_EQ(page.hours[3].hour_s, 2 * usage::kHourS);
  StoredUsage taken_back;
  taken_back.row.job = "j-1";
  taken_back.takes_savings_back = true;
  StoreChange marked;
  marked.usage = {taken_back};
  EXPECT_EQ(write(marked), StoreOutcome::committed);
  const ExportPage invalid = read({.table = ExportTable::usage, .from_s = 0, .to_s = 1e9, .after = {}, .limit = 100});
  ASSERT_THAT(invalid.hours, SizeIs(4));
  EXPECT_FALSE(invalid.hours[1].has_baseline()) << "a job that becomes invalid has no saving";
  EXPECT_EQ(invalid.hours[1].energy_j, 200);
  EXPECT_EQ(invalid.hours[1].doubtful_energy_j, 200);
  StoreChange valid;
  valid.usage = {usage_of("j-1", 1, 90, 9)};
  EXPECT_EQ(write(valid), StoreOutcome::committed);
  EXPECT_EQ(write(marked), StoreOutcome::committed) << "a second time";
  EXPECT_EQ(write(valid), StoreOutcome::committed);
  const ExportPage later = read({.table = ExportTable::usage, .from_s = 0, .to_s = 1e9, .after = {}, .limit = 100});
  ASSERT_THAT(later.hours, SizeIs(6));
  EXPECT_EQ(std::ranges::count_if(later.hours, [](const usage::UsageRow& row) { return row.has_baseline(); }), 1);
}

TEST_F(SqliteStoreTest, ReadsTablesPageByPage) {
  options_.now_s = [] { return 10'000.0; };
  open();
  StoreChange change;
  for (int number = 0; number < 10; ++number) {
    const std::string id = "j-" + std::to_string(number);
    change.jobs.push_back(job(id, number < 5 ? std::optional(5'000.0) : std::nullopt));
    change.decisions.push_back({id, 1, 100.0 * number, "{}"});
    for (int hour = 0; hour < 3; ++hour) change.usage.push_back(usage_of(id, hour, 0, 1));
  }
  EXPECT_EQ(write(change), StoreOutcome::committed);
  std::vector<std::pair<std::int64_t, std::string>> hours;
  ExportQuery query{.table = ExportTable::usage, .from_s = 3'600, .to_s = 10'800, .after = {}, .limit = 7};
  do {
    const ExportPage page = read(query);
    for (const usage::UsageRow& row : page.hours) hours.emplace_back(row.hour_s, row.job);
    query.after = page.next;
  } while (!query.after.empty());
  ASSERT_THAT(hours, SizeIs(20));
  EXPECT_TRUE(std::ranges::is_sorted(hours));
  EXPECT_EQ(hours.front(), (std::pair<std::int64_t, std::string>(3'600, "j-0")));
  query = {.table = ExportTable::jobs, .from_s = 6'000, .to_s = 1e9, .after = {}, .limit = 4};
  std::vector<std::string> jobs;
  do {
    const ExportPage page = read(query);
    for (const UsedJob& used : page.jobs) {
      jobs.push_back(used.job);
      EXPECT_EQ(used.energy_j, 300);
    }
    query.after = page.next;
  } while (!query.after.empty());
  EXPECT_THAT(jobs, ElementsAre("j-5", "j-6", "j-7", "j-8", "j-9"));
  query = {.table = ExportTable::decisions, .from_s = 100, .to_s = 300, .after = {}, .limit = 3};
  std::vector<std::string> decided;
  do {
    const ExportPage page = read(query);
    for (const StoredDecision& decision : page.decisions) decided.push_back(decision.job);
    query.after = page.next;
  } while (!query.after.empty());
  EXPECT_THAT(decided, ElementsAre("j-1", "j-2"));
}

TEST_F(SqliteStoreTest, RefusesPlacesThatAreNone) {
  open();
  for (const char* after : {"x", "1", "1.x", "."}) {
    std::optional<std::optional<ExportPage>> page;
    store_->read_page({.table = ExportTable::usage, .from_s = 0, .to_s = 1, .after = after, .limit = 5},
                      [&](std::optional<ExportPage> said) { page = std::move(said); });
    EXPECT_TRUE(loop_.run_until([&] { return page.has_value(); }));
    EXPECT_FALSE(page->has_value()) << after;
  }
}

StoredBudgetUse use_of(const std::string& budget, std::int64_t time_s) {
  return {.time_s = time_s,
          .budget = budget,
          .limit_w = 100,
          .planned_w = 90.5,
          .assumed_w = 3,
          .measured_w = 80.25,
          .measured_gpus = 4,
          .held_w = std::nullopt,
          .kept = true};
}

TEST_F(SqliteStoreTest, KeepsHowBudgetsWereUsed) {
  options_.retention.budget_days = 1;
  options_.now_s = [] { return 100'000.0; };
  open();
  StoreChange change;
  for (std::int64_t time_s = 1; time_s <= 6; ++time_s) {
    change.budgets.push_back(use_of("a", 50'000 + time_s / 2));
    change.budgets.push_back(use_of("b", 50'000 + time_s / 2));
  }
  change.budgets.push_back(use_of("a", 10'000));
  change.budgets.back().measured_w.reset();
  change.budgets.back().held_w = 7;
  change.budgets.back().kept = false;
  EXPECT_EQ(write(change), StoreOutcome::committed);
  ExportQuery query{.table = ExportTable::budgets, .from_s = 0, .to_s = 20'000, .after = {}, .limit = 5};
  ExportPage page = read(query);
  ASSERT_THAT(page.budgets, SizeIs(1));
  EXPECT_EQ(page.next, "");
  EXPECT_EQ(page.budgets[0].measured_w, std::nullopt);
  EXPECT_EQ(page.budgets[0].held_w, 7);
  EXPECT_FALSE(page.budgets[0].kept);
  query = {.table = ExportTable::budgets, .from_s = 50'001, .to_s = 50'003, .after = {}, .limit = 3};
  std::vector<std::int64_t> times;
  do {
    page = read(query);
    for (const StoredBudgetUse& use : page.budgets) times.push_back(use.time_s);
    query.after = page.next;
  } while (!query.after.empty());
  EXPECT_THAT(times, ElementsAre(50'001, 50'001, 50'001, 50'001, 50'002, 50'002, 50'002, 50'002));
  EXPECT_EQ(page.budgets.back().measured_w, 80.25);
  EXPECT_EQ(page.budgets.back().measured_gpus, 4);
  open();  // looks for what is too old at once
  EXPECT_TRUE(loop_.run_until([&] {
    return read({.table = ExportTable::budgets, .from_s = 0, .to_s = 1e9, .after = {}, .limit = 50}).budgets.size() ==
           12;
  }));
}

TEST_F(SqliteStoreTest, RemovesUsageThatIsTooOld) {
  constexpr double kNowS = 1e9;
  options_.retention.usage_days = 1;
  options_.now_s = [] { return kNowS; };
  open();
  StoreChange change;
  change.jobs = {job("j-1"), job("j-2")};
  change.usage = {usage_of("j-1", 1, 0, 1), usage_of("j-2", static_cast<std::int64_t>(kNowS) / 3'600, 0, 1)};
  EXPECT_EQ(write(change), StoreOutcome::committed);
  open();  // looks for what is too old at once
  EXPECT_TRUE(loop_.run_until([&] {
    return read({.table = ExportTable::jobs, .from_s = 0, .to_s = 1e9, .after = {}, .limit = 5}).jobs.size() == 1;
  }));
}

}  // namespace
}  // namespace lowgear::server
