#include "agent/gpu/pending_writes.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/error.h"

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

using namespace std::chrono_literals;

class PendingWritesTest : public ::testing::Test {
 protected:
  void make(std::chrono::milliseconds timeout) { writes_ = std::make_unique<PendingWrites>(io_, timeout); }
  PendingWrites::Outcome add() {
    const auto done = [this](const std::exception_ptr& error) {
      try {
        if (error) std::rethrow_exception(error);
        told_.emplace_back("written");
      } catch (const Error& failure) {
        told_.emplace_back(failure.what());
      }
    };
    return writes_->add(done, std::make_exception_ptr(Error("too late")));
  }

  boost::asio::io_context io_;
  std::unique_ptr<PendingWrites> writes_;
  std::vector<std::string> told_;
};

TEST_F(PendingWritesTest, TellsTheOutcomeOnceOnTheLoop) {
  make(1h);
  const PendingWrites::Outcome first = add();
  const PendingWrites::Outcome second = add();
  std::thread([&] {
    second(std::make_exception_ptr(Error("refused")));
    first(nullptr);
    first(nullptr);
  }).join();
  EXPECT_TRUE(told_.empty()) << "not on the driver's thread";
  io_.run();
  EXPECT_EQ(told_, (std::vector<std::string>{"refused", "written"}));
}

TEST_F(PendingWritesTest, TellsWhenTheTimeIsOver) {
  make(1ms);
  const PendingWrites::Outcome outcome = add();
  io_.run();
  EXPECT_EQ(told_, std::vector<std::string>{"too late"});
  outcome(nullptr);
  io_.restart();
  io_.run();
  EXPECT_EQ(told_.size(), 1U);
}

TEST_F(PendingWritesTest, TellsNobodyOnceItIsGone) {
  make(1h);
  const PendingWrites::Outcome before = add();
  const PendingWrites::Outcome after = add();
  before(nullptr);
  writes_.reset();
  after(nullptr);
  io_.run();
  EXPECT_TRUE(told_.empty());
}

TEST_F(PendingWritesTest, DoesNotTouchTheLoopOnceItIsGone) {
  make(1h);
  const PendingWrites::Outcome outcome = add();
  writes_.reset();
  io_.run();
  io_.restart();
  outcome(nullptr);
  EXPECT_EQ(io_.poll(), 0U) << "the loop may have gone, too";
}

}  // namespace

}  // namespace lowgear::agent
