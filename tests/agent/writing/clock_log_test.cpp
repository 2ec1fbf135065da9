#include "agent/writing/clock_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::agent {
namespace {

class ClockLogTest : public testing::Test {
 protected:
  [[nodiscard]] ClockLog make(std::size_t max_bytes = ClockLog::kMaxBytes) {
    return {file_, [this](const std::string& problem) { problems_.push_back(problem); }, max_bytes};
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "clocks/GPU-0.freqevents.csv";
  std::vector<std::string> problems_;
};

TEST_F(ClockLogTest, HasARowFromTheReturnOfOneCallToTheNextCall) {
  {
    ClockLog log = make();
    log.set(1410, 100, 130);
    log.set(900, 500, 520);
    log.ended(800);
    log.ended(900);
    log.set(1200, 1000, 1010);
    log.ended(1500);
  }
  EXPECT_EQ(read_file(file_), "freq,start,end\n1410,130,500\n900,520,800\n1200,1010,1500\n");
  EXPECT_TRUE(problems_.empty());
}

TEST_F(ClockLogTest, ContinuesInTheFileOfAnEarlierRun) {
  for (const int clock_mhz : {1410, 900}) {
    ClockLog log = make();
    log.set(clock_mhz, 1, 2);
    log.ended(3);
  }
  EXPECT_EQ(read_file(file_), "freq,start,end\n1410,2,3\n900,2,3\n");
}

TEST_F(ClockLogTest, EndsTheLastRowWithItself) {
  {
    ClockLog log = make();
    log.set(1410, 1, 2);
  }
  EXPECT_THAT(read_file(file_), testing::StartsWith("freq,start,end\n1410,2,1"));
}

TEST_F(ClockLogTest, BeginsANewFileWhereOneIsFull) {
  ClockLog log = make(20);
  for (int time = 0; time < 3; ++time) {
    log.set(1410, time, time);
    log.ended(time);
  }
  EXPECT_EQ(read_file(file_), "freq,start,end\n1410,2,2\n");
  EXPECT_EQ(read_file(file_.string() + ".old"), "freq,start,end\n1410,1,1\n");
}

TEST_F(ClockLogTest, ReportsOnceWhatCannotBeWritten) {
  std::filesystem::create_directories(file_);  // a folder in its place
  ClockLog log = make();
  for (int time = 0; time < 3; ++time) {
    log.set(1410, time, time);
    log.ended(time);
  }
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_THAT(problems_[0], testing::HasSubstr("clock changes cannot be logged"));
}

}  // namespace
}  // namespace lowgear::agent
