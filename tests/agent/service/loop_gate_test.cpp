#include "agent/service/loop_gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace lowgear::agent {
namespace {

TEST(LoopGate, HasCallsMadeOnTheLoop) {
  boost::asio::io_context io;
  LoopGate gate(io);
  std::thread::id called_on;
  std::thread([&] { gate.post([&] { called_on = std::this_thread::get_id(); }); }).join();
  EXPECT_EQ(io.run(), 1U);
  EXPECT_EQ(called_on, std::this_thread::get_id());
}

TEST(LoopGate, DropsCallsOnceItIsClosed) {
  auto io = std::make_unique<boost::asio::io_context>();
  LoopGate gate(*io);
  gate.close();
  io.reset();
  gate.post([] { FAIL() << "there is no loop"; });
}

}  // namespace
}  // namespace lowgear::agent
