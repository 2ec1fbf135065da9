#include "planning/adapt/freezing/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "base/core/error_of.h"

namespace lowgear::adapt::freezing {
namespace {

using testing::HasSubstr;

/// A controller's life on made-up observations, with a broken one among them, and what it wrote.
std::string recorded(int windows, Controller& controller, const Options& options, std::mt19937& random) {
  std::uniform_real_distribution<double> noise(0.8, 1.2);
  std::string text = write_header(6, options, controller.state(), 0) + "\n";
  for (int window = 0; window < windows; ++window) {
    Observation seen{.steps_done = 10 * window, .learning_rate = 1e-4 * noise(random)};
    seen.held_out_loss = window == 7 ? std::numeric_limits<double>::infinity() : 1.7 * noise(random);
    for (int block = 0; block < 6; ++block) {
      const bool frozen = block < controller.state().blocks;
      seen.gradients.push_back(frozen ? std::numeric_limits<double>::quiet_NaN() : noise(random) / 3);
      seen.drifts.push_back(noise(random) / 7);
    }
    text += write_line({seen, controller.observe(seen)}) + "\n";
  }
  return text;
}

TEST(FreezingRecord, ReplaysToTheSameDecisionsBitForBit) {
  const Options options{.cap = 0.7, .dwell_windows = 1, .steady_windows = 1, .steady_drift = 0.5, .loss_margin = 0.05};
  std::mt19937 random(3);
  int changes = 0;
  for (int round = 0; round < 20; ++round) {
    Controller controller(6, options);
    // Of a run that was continued once.
    std::string text = recorded(20, controller, options, random);
    Controller continued(6, options, parse_state(write_state(controller.state()), "state"));
    text += recorded(20, continued, options, random);
    const std::vector<Record> records = read_records(text, "log");
    ASSERT_EQ(records.size(), 2U);
    for (const Record& record : records) {
      std::vector<Decision> decisions;
      for (const Step& step : record.steps) {
        decisions.push_back(step.decision);
        changes += step.decision.change != Change::none ? 1 : 0;
      }
      EXPECT_EQ(replay(record), decisions);
    }
  }
  EXPECT_GT(changes, 40);
}

TEST(FreezingRecord, NamesTheLineThatIsWrong) {
  Controller controller(6, {});
  std::mt19937 random(3);
  const std::string text = recorded(2, controller, {}, random);
  const auto error = [](const std::string& lines) { return error_of([&] { (void)read_records(lines, "log"); }); };
  EXPECT_THAT(error(text.substr(text.find('\n') + 1)), HasSubstr("the first line is no header"));
  EXPECT_THAT(error(text + "{}\n"), HasSubstr("log:4: $: the member \"observation\" is missing"));
  std::string wrong = text;
  wrong.replace(wrong.find("freezing/1"), 10, "freezing/9");
  EXPECT_THAT(error(wrong), HasSubstr("lowgear.freezing/9"));
  wrong = text;
  wrong.replace(wrong.find("\"none\""), 6, "\"some\"");
  EXPECT_THAT(error(wrong), HasSubstr("unknown change \"some\""));
}

}  // namespace
}  // namespace lowgear::adapt::freezing
