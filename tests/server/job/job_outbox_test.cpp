#include "server/job/job_outbox.h"

#include <gtest/gtest.h>

namespace lowgear::server {
namespace {

TEST(ServerEvent, HasTheNameThatStreamsGiveIt) {
  EXPECT_EQ(name(ServerEvent::decision), "decision");
  EXPECT_EQ(name(ServerEvent::job_lost), "job_lost");
  EXPECT_EQ(name(ServerEvent::budget_kept), "budget_kept");
  EXPECT_EQ(name(ServerEvent::agent_forgotten), "agent_forgotten");
}

}  // namespace
}  // namespace lowgear::server
