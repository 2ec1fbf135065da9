#include "training/trainer/run/server_presence.h"

#include <gtest/gtest.h>

namespace lowgear::trainer {
namespace {

TEST(ServerPresence, IsNoNewsWhileTheServerAnswers) {
  ServerPresence server("http://planner:7787", 4);
  EXPECT_EQ(server.observe(0, ""), "");
  server.count_step();
  EXPECT_EQ(server.summary(), "");
  EXPECT_EQ(server.steps_without(), 0);
}

TEST(ServerPresence, SaysOnceThatTheServerIsAwayAndOnceThatItIsBack) {
  ServerPresence server("http://planner:7787", 4);
  EXPECT_EQ(server.observe(1, "http://planner:7787: cannot be reached: Connection refused"),
            "no server: http://planner:7787: cannot be reached: Connection refused; training continues without plans "
            "of the server until it responds");
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(server.observe(4, "http://planner:7787: cannot be reached: it does not respond"), "");
    server.count_step();
  }
  EXPECT_EQ(server.observe(0, ""), "the server http://planner:7787 responds again");
  server.count_step();
  EXPECT_EQ(server.steps_without(), 3);
  EXPECT_EQ(server.summary(),
            "3 of 4 steps were done without the server: http://planner:7787: cannot be reached: it does not respond");
}

TEST(ServerPresence, CountsRanksThatAloneHaveNoAnswer) {
  ServerPresence server("unix:/run/server.sock", 8);
  EXPECT_EQ(server.observe(3, ""),
            "no server: unix:/run/server.sock: 3 of 8 ranks get no response; training continues without plans of the "
            "server until it responds");
}

}  // namespace
}  // namespace lowgear::trainer
