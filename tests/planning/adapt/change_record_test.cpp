#include "planning/adapt/change_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "planning/adapt/changing_job.h"

namespace lowgear::adapt {

namespace {

using ::testing::HasSubstr;

/// A run that was continued once, with all that may happen in one.
std::string recorded(unsigned seed) {
  ChangingJob job;
  job.random.seed(seed);
  job.noise = 0.004;
  job.held_out = [&](const Configuration& now) {
    if (job.steps_done % 70 == 0) return kMissing;
    return 2.0 + (now.frozen_blocks > 1 ? 0.03 : 0);
  };
  job.broken = [&](IterationSeen& seen) {
    if (job.steps_done % 13 == 0) seen.energy_j = kMissing;
    if (job.steps_done == 200 + static_cast<int>(seed)) seen.switched = false;
  };
  std::string text;
  ChangeState state;
  ChangeOptions options = both_options();
  options.freezing->tried = seed % 2 == 1;
  for (int run = 0; run < 2; ++run) {
    ChangeController controller(options, state);
    text += write_change_header(options, state, job.steps_done) + "\n";
    job.text.clear();
    for (int i = 0; i < 400; ++i) job.iterate(controller);
    text += job.text;
    const Json document = change_state_json(controller.state());
    state = change_state_of(JsonView(document, "state"));
    EXPECT_EQ(change_state_json(state), document) << "what is missing is not equal to itself, but as null";
  }
  return text;
}

TEST(ChangeRecord, ReplaysToTheSameDecisionsBitForBit) {
  std::size_t decisions = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    const std::vector<ChangeRecord> records = read_change_records(recorded(seed), "log");
    ASSERT_EQ(records.size(), 2U);
    for (const ChangeRecord& record : records) {
      const std::vector<std::vector<ChangeDecision>> replayed = replay(record);
      ASSERT_EQ(replayed.size(), record.steps.size());
      for (std::size_t step = 0; step < replayed.size(); ++step) {
        EXPECT_EQ(replayed[step], record.steps[step].decisions) << step;
        decisions += replayed[step].size();
      }
    }
  }
  EXPECT_GT(decisions, 100U);
}

TEST(ChangeRecord, NamesTheLineThatIsWrong) {
  const std::string text = recorded(1);
  const auto error = [](const std::string& lines) {
    return error_of([&] { (void)read_change_records(lines, "log"); });
  };
  EXPECT_THAT(error(text.substr(text.find('\n') + 1)), HasSubstr("log:1: $: the first line is not a header"));
  EXPECT_THAT(error(text + "{}\n"), HasSubstr("log:803: $: the member \"iteration\" is missing"));
  std::string wrong = text;
  wrong.replace(wrong.find("techniques/1"), 12, "techniques/9");
  EXPECT_THAT(error(wrong), HasSubstr("lowgear.techniques/9"));
  wrong = text;
  wrong.replace(wrong.find("\"adopt\""), 7, "\"allow\"");
  EXPECT_THAT(error(wrong), HasSubstr("\"allow\" is unknown"));
}

}  // namespace

}  // namespace lowgear::adapt
