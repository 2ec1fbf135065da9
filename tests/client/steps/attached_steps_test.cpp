#include "client/steps/attached_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/core/environment.h"
#include "base/core/error_of.h"
#include "base/core/eventually.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "planning/schedule/generators.h"
#include "planning/steps/step_input.h"

namespace lowgear::client {
namespace {

using steps::Amounts;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const std::vector<Amounts> kDocuments{{10, 60}, {20, 400}};
const std::vector<Amounts> kOthers{{30, 900}, {40, 800}};

/// Records the lengths of two replicas.
class AttachedStepsTest : public testing::Test {
 protected:
  AttachedStepsTest() : client_({}, process_environment()) {
    options_.schedule = schedule::one_f_one_b_schedule(1, 2);
    options_.replicas = 2;
    options_.recording = folder_.path();
  }

  void begin() { steps_ = std::make_unique<AttachedSteps>(options_, client_); }
  void tell(std::int64_t iteration, const std::vector<Amounts>& amounts = kDocuments) {
    for (const int replica : {0, 1}) steps_->tell(iteration, replica, amounts);
  }
  /// What the end says.
  std::string end() {
    testing::internal::CaptureStderr();
    EXPECT_EQ(steps_->finish(), std::nullopt) << "no clocks are asked for";
    return testing::internal::GetCapturedStderr();
  }
  [[nodiscard]] bool has_file() const { return std::filesystem::exists(folder_.path() / steps::kLengthsFile); }
  [[nodiscard]] steps::Lengths recorded() const {
    return steps::read_lengths(read_file(folder_.path() / steps::kLengthsFile), "lengths.csv");
  }
  [[nodiscard]] std::vector<int> recorded_steps() const {
    std::vector<int> numbers;
    if (!has_file()) return numbers;
    for (const steps::Lengths::Step& step : recorded().steps) {
      if (step.fault.empty()) numbers.push_back(step.number);
    }
    return numbers;
  }
  void await_step(int number) {
    EXPECT_TRUE(eventually([&] {
      const std::string rows = has_file() ? read_file(folder_.path() / steps::kLengthsFile) : "";
      return rows.find("\n" + std::to_string(number) + ",1,1,") != std::string::npos && rows.ends_with('\n');
    }));
  }

  TemporaryFolder folder_;
  Client client_;
  AttachedStepsOptions options_;
  std::unique_ptr<AttachedSteps> steps_;
};

TEST_F(AttachedStepsTest, RecordLengthsOnceTheirIterationHasBegun) {
  begin();
  for (const std::int64_t iteration : {0, 1, 2, 3}) tell(iteration);
  for (const std::uint64_t iteration : {0U, 1U, 2U}) steps_->iteration_begins(iteration);
  EXPECT_EQ(end(), "");
  EXPECT_THAT(recorded_steps(), ElementsAre(0, 1, 2));
  EXPECT_THAT(recorded().steps[1].amounts, ElementsAre(kDocuments[0], kDocuments[1], kDocuments[0], kDocuments[1]));
}

TEST_F(AttachedStepsTest, RecordLengthsThatComeAfterThoseOfALaterIteration) {
  begin();
  for (const std::int64_t iteration : {0, 2}) tell(iteration);
  steps_->tell(1, 0, kDocuments);
  for (const std::uint64_t iteration : {0U, 1U, 2U}) steps_->iteration_begins(iteration);
  await_step(2);
  steps_->tell(1, 1, kDocuments);
  EXPECT_EQ(end(), "");
  EXPECT_THAT(recorded_steps(), ElementsAre(0, 1, 2));
}

TEST_F(AttachedStepsTest, SayHowManyIterationsWereNotRecorded) {
  begin();
  tell(0);
  tell(2);
  steps_->tell(1, 0, kDocuments);
  for (const std::uint64_t iteration : {0U, 1U, 2U, 3U}) steps_->iteration_begins(iteration);
  EXPECT_EQ(end(),
            "lowgear: the lengths of 2 of 4 iterations were not recorded, and lowgear profile leaves these out; "
            "iteration 1: its lengths were not told by replica 1\n");
  EXPECT_THAT(recorded_steps(), ElementsAre(0, 2));
}

TEST_F(AttachedStepsTest, SayNothingOfAJobThatTellsNone) {
  begin();
  steps_->iteration_begins(0);
  EXPECT_EQ(end(), "");
  EXPECT_FALSE(has_file());
}

TEST_F(AttachedStepsTest, KeepNoRowsOfAnotherJob) {
  write_file_atomically(folder_.path() / steps::kLengthsFile,
                        "step,replica,microbatch,tokens,squared_tokens\n0,0,0,7,7\n0,0,1,8,8\n");
  begin();
  tell(1);
  for (const std::uint64_t iteration : {0U, 1U}) steps_->iteration_begins(iteration);
  EXPECT_THAT(end(), HasSubstr("of 1 of 2 iterations"));
  EXPECT_THAT(recorded_steps(), ElementsAre(1));
}

TEST_F(AttachedStepsTest, RecordRepeatedIterationsInPlaceOfTheFirstOnes) {
  begin();
  for (const std::int64_t iteration : {0, 1, 2}) tell(iteration);
  for (const std::uint64_t iteration : {0U, 1U, 2U}) steps_->iteration_begins(iteration);
  await_step(2);
  steps_->iteration_begins(1);
  tell(1, kOthers);
  tell(2, kOthers);
  steps_->iteration_begins(2);
  EXPECT_EQ(end(), "");
  EXPECT_THAT(recorded_steps(), ElementsAre(0, 1, 2));
  EXPECT_EQ(recorded().steps[0].amounts.front(), kDocuments.front());
  EXPECT_EQ(recorded().steps[2].amounts.front(), kOthers.front());
}

TEST_F(AttachedStepsTest, AreRecordedByTheRankThatSpeaks) {
  options_.speaks = false;
  begin();
  steps_->tell(0, 0, kDocuments);
  steps_->iteration_begins(0);
  EXPECT_EQ(end(), "");
  EXPECT_FALSE(has_file());
}

TEST_F(AttachedStepsTest, RefuseRanksAndReplicasThatDoNotExist) {
  options_.pp_rank = 1;
  EXPECT_THAT(error_of([&] { begin(); }), StartsWith("there is no pipeline rank 1"));
  options_.pp_rank = 0;
  options_.replica = 2;
  EXPECT_THAT(error_of([&] { begin(); }), StartsWith("there is no replica 2"));
}

}  // namespace
}  // namespace lowgear::client
