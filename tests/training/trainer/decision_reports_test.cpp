#include "training/trainer/decision_reports.h"

#include <gtest/gtest.h>

namespace lowgear::trainer {
namespace {

launcher::TrainConfig config() {
  launcher::TrainConfig config;
  config.model.layers = 24;
  config.adapt.freezing = true;
  return config;
}

adapt::TechniqueDecision adopted() {
  return {.steps_done = 1200,
          .technique = adapt::Technique::freezing,
          .change = adapt::TechniqueChange::adopt,
          .configuration = {.frozen_blocks = 6, .point = 1},
          .reason = "energy -3.1 % +- 0.4 %"};
}

TEST(DecisionReports, SayHowTheJobRunsFromThenOn) {
  const protocol::TrainingDecision decision = reported(adopted(), config());
  EXPECT_EQ(decision.from_iteration, 1200) << "steps are numbered from 0";
  EXPECT_EQ(decision.technique, "freezing");
  EXPECT_EQ(decision.change, "adopt");
  EXPECT_EQ(decision.configuration, "6 of 24 blocks frozen");
  EXPECT_EQ(decision.reason, "energy -3.1 % +- 0.4 %");
}

TEST(DecisionReports, NameEveryChangeAsTheServerTakesIt) {
  for (int change = 0; change <= static_cast<int>(adapt::TechniqueChange::wait); ++change) {
    adapt::TechniqueDecision decision = adopted();
    decision.change = static_cast<adapt::TechniqueChange>(change);
    EXPECT_TRUE(protocol::is_word(reported(decision, config()).change)) << change;
  }
}

TEST(DecisionReports, NameTheOperatingPointAndThePlacebo) {
  launcher::TrainConfig both = config();
  both.adapt.slowdown.emplace();
  both.adapt.slowdown->clocks_mhz = {1980, 1755};
  both.adapt.placebo = true;
  EXPECT_EQ(reported(adopted(), both).configuration,
            "placebo: 6 of 24 blocks frozen, " + both.adapt.slowdown->names().at(1));
}

TEST(DecisionReports, CountWhatDidNotReachTheServer) {
  client::Status status;
  status.server_connected = true;
  status.decisions_waiting = 3;
  EXPECT_EQ(unsent_decisions(status), "") << "they are on their way";
  status.decisions_lost = 1;
  EXPECT_EQ(unsent_decisions(status), "1 decision has not reached the server; the metrics and adapt.log have them");
  status.server_connected = false;
  status.server_problem = "http://s:1: cannot be reached";
  EXPECT_EQ(unsent_decisions(status),
            "4 decisions have not reached the server: http://s:1: cannot be reached; the metrics and adapt.log have "
            "them");
}

}  // namespace
}  // namespace lowgear::trainer
