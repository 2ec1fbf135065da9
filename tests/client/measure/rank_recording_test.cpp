#include "client/measure/rank_recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::client {

namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

UnitRecord unit(std::uint64_t number) { return {.begin_ns = number * 1000, .end_ns = number * 1000 + 500}; }

TEST(RecordingWriter, EndsBeforeAFileIsTooLongToBeRead) {
  const TemporaryFolder folder;
  RecordingWriter writer(folder / "run", RecordingFolder::must_be_new, {}, 0, 1000);
  std::uint64_t number = 0;
  for (; writer.problem().empty() && number < 1000; ++number) {
    writer.write(unit(number));
    if (number == 5) writer.write({.iteration = 0, .type = RecordType::iteration_end});
    if (number % 3 == 2) writer.flush();
  }
  EXPECT_THAT(writer.problem(),
              AllOf(HasSubstr("the recording ends after 1 iterations: units.csv is as long as can be read"),
                    HasSubstr("1000 bytes")));
  writer.write(unit(number));
  writer.finish(0);
  const std::string units = read_file(folder / "run/rank-00000/units.csv");
  EXPECT_LE(units.size(), 1000);
  EXPECT_GT(units.size(), 800);
  EXPECT_THAT(units, EndsWith("\n"));
  EXPECT_EQ(std::ranges::count(units, '\n') % 3, 1) << "the header, and what was flushed together";
}

TEST(RecordingWriter, LeavesNothingBehindThatCannotBegin) {
  const TemporaryFolder folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  const auto begin = [&] { const RecordingWriter writer(folder / "run", RecordingFolder::must_be_new, {}, 0); };
  EXPECT_THROW(begin(), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(std::filesystem::exists(folder / "run/rank-00000"));
  EXPECT_NO_THROW(begin());
}

TEST(RankRecording, IsMarkedWhereItsFiguresMeanNothingAndWhereItsRankFailed) {
  const TemporaryFolder folder;
  const auto header = [&] { return read_file(folder / "run/rank-00000/recording.json"); };
  RankRecording recording({.folder = folder / "run", .existing = {}, .iterations = {}}, {}, 0);
  EXPECT_THAT(header(), HasSubstr("\"ended\": false"));
  recording.set_invalid("its kernels were too short");
  recording.flush();
  EXPECT_THAT(header(), AllOf(HasSubstr("\"invalid\": \"its kernels were too short\""), HasSubstr("\"ended\": false")))
      << "a job may be killed";
  recording.set_invalid("");
  recording.flush();
  EXPECT_EQ(header().find("invalid"), std::string::npos) << "later iterations outweigh those before";
  recording.set_invalid("its kernels were too short");
  recording.finish(0, "RuntimeError");
  EXPECT_THAT(header(), AllOf(HasSubstr("\"invalid\": \"its kernels were too short\""),
                              HasSubstr("\"failure\": \"RuntimeError\""), HasSubstr("\"ended\": true")));
  recording.set_invalid("");
  recording.finish(0, "");
  EXPECT_EQ(header().find("invalid"), std::string::npos);
  EXPECT_EQ(header().find("failure"), std::string::npos);
}

TEST(RankRecording, SaysAtOnceThatClocksAreRequestedAhead) {
  const TemporaryFolder folder;
  const auto header = [&] { return read_file(folder / "run/rank-00000/recording.json"); };
  RankRecording recording({.folder = folder / "run", .existing = {}, .iterations = {}}, {}, 0);
  EXPECT_EQ(header().find("clock_lead_s"), std::string::npos);
  recording.set_clock_lead(0.025);
  EXPECT_THAT(header(), AllOf(HasSubstr("\"clock_lead_s\": 0.025"), HasSubstr("\"ended\": false")));
}

TEST(RecordedIterations, AreAllByDefault) {
  const RecordedIterations all;
  EXPECT_TRUE(all.contains(0));
  EXPECT_TRUE(all.contains(UINT64_MAX - 1));
}

TEST(RecordedIterations, HaveNeighbours) {
  const RecordedIterations some{.first = 11, .count = 2};
  EXPECT_FALSE(some.contains(10));
  EXPECT_TRUE(some.contains(11));
  EXPECT_TRUE(some.contains(12));
  EXPECT_FALSE(some.contains(13));
  EXPECT_FALSE(some.contains_near(9));
  EXPECT_TRUE(some.contains_near(10));
  EXPECT_TRUE(some.contains_near(13));
  EXPECT_FALSE(some.contains_near(14));
  EXPECT_TRUE((RecordedIterations{.first = 0, .count = 1}).contains_near(0));
}

}  // namespace

}  // namespace lowgear::client
