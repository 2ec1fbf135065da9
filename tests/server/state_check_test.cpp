#include "server/state_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/temporary_folder.h"
#include "server/job/job_record.h"
#include "server/simulated_job.h"
#include "server/store/sqlite_store.h"
#include "server/store/state_backup.h"

namespace lowgear::server {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
namespace fs = std::filesystem;

/// The state of a server with a job that trains, a budget, a signal and a node.
class StateCheck : public testing::Test {
 protected:
  static StoreContents of_a_job_that_trains() {
    SimulatedJob training(small_job(2));
    training.train();
    training.run(5);
    StoreContents contents = training.stored();
    contents.documents.push_back({"budget/cluster", R"({"watts":1000})"});
    contents.documents.push_back({"signal/carbon", R"({"points":[[0,1]],"rules":[{"above":1,"slowdown_pct":5}]})"});
    contents.documents.push_back({"node/node-1", R"({"safe_w":100,"gpus":[]})"});
    return contents;
  }
  void write() const {
    StoreChange change;
    change.jobs = contents.jobs;
    change.ranks = contents.ranks;
    change.reports = contents.reports;
    change.plans = contents.plans;
    change.cells = contents.cells;
    change.documents = contents.documents;
    SqliteStore store(folder_ / "state", [](const std::function<void()>& function) { function(); }, {});
    store.write(std::move(change), {});
  }
  /// What is wrong with the backup.
  static std::string refusal(const RestoreRequest& request) {
    return error_of<Error>([&] { (void)restore(request); });
  }

  StoreContents contents = of_a_job_that_trains();
  TemporaryFolder folder_;
  const BackupRequest backup{
      .state = folder_ / "state", .file = folder_ / "backup", .kind = BackupKind::copy, .unreadable = unreadable_rows};
};

TEST_F(StateCheck, FindsNothingInWhatAServerWrote) { EXPECT_THAT(unreadable_rows(contents), IsEmpty()); }

TEST_F(StateCheck, NamesEachRowThatIsDamaged) {
  contents.reports.at(3).document.back() = 'x';
  contents.plans.at(0).document.clear();
  contents.documents.at(contents.documents.size() - 3).document = "{}";
  contents.documents.back().key = "nodf/node-1";
  contents.decisions.push_back({"j-1", 7, 0, "{"});
  const std::vector<std::string> found = unreadable_rows(contents);
  EXPECT_THAT(found, SizeIs(5));
  EXPECT_THAT(found, Contains(HasSubstr("reports of rank")));
  EXPECT_THAT(found, Contains(HasSubstr("plan 1")));
  EXPECT_THAT(found, Contains(HasSubstr("budget/cluster")));
  EXPECT_THAT(found, Contains(HasSubstr("nodf/node-1")));
  EXPECT_THAT(found, Contains(HasSubstr("decision 7")));
}

TEST_F(StateCheck, LetsNoBackupBeMadeOfRowsThatAServerWouldLeaveOut) {
  contents.ranks.at(0).document.back() = 'x';
  write();
  try {
    (void)back_up(backup);
    ADD_FAILURE() << "a job is lost";
  } catch (const DamagedState& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("job j-1: left out"), HasSubstr("copy its folder")));
  }
  EXPECT_FALSE(fs::exists(backup.file));
}

/// Also where SQLite finds the file in order and every row can be read: a bit makes another number of a number.
TEST_F(StateCheck, AcceptsNoBackupWithABitThatHasChanged) {
  write();
  (void)back_up(backup);
  const RestoreRequest request{.file = backup.file, .state = folder_ / "other", .unreadable = unreadable_rows};
  const auto bytes = static_cast<std::int64_t>(fs::file_size(request.file));
  constexpr int kFlips = 150;
  for (int flip = 0; flip < kFlips; ++flip) {
    const std::int64_t at = flip < 20 ? bytes - 1 - flip * 5 : (bytes - 100) * flip / kFlips + flip % 97;
    std::fstream changed(request.file, std::ios::in | std::ios::out | std::ios::binary);
    changed.seekg(at);
    const auto before = static_cast<char>(changed.get());
    const auto put = [&](char byte) {
      changed.seekp(at);
      changed.put(byte);
      changed.flush();
    };
    put(static_cast<char>(before ^ (1 << flip % 8)));
    EXPECT_NE(refusal(request), "no error") << "byte " << at << " of " << bytes;
    EXPECT_FALSE(fs::exists(request.state));
    put(before);
  }
  EXPECT_EQ(refusal(request), "no error");
}

}  // namespace
}  // namespace lowgear::server
