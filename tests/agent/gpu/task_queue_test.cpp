#include "agent/gpu/task_queue.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace lowgear::agent {
namespace {

TEST(TaskQueue, RunsTasksInOrder) {
  TaskQueue queue;
  std::vector<int> ran;
  queue.post([&ran] { ran.push_back(1); });
  queue.post([&ran] { ran.push_back(2); });
  while (auto task = queue.next()) (*task)();
  EXPECT_EQ(ran, (std::vector{1, 2}));
  EXPECT_FALSE(queue.stopped());
}

TEST(TaskQueue, HandsOverWhatATaskThrows) {
  TaskQueue queue;
  std::future<void> done = queue.post([] { throw std::runtime_error("no"); });
  (*queue.next())();
  EXPECT_THROW(done.get(), std::runtime_error);
}

TEST(TaskQueue, RunsNothingOnceItIsStopped) {
  TaskQueue queue;
  queue.post([] { FAIL(); });
  queue.stop();
  EXPECT_FALSE(queue.next());
  EXPECT_TRUE(queue.stopped());
}

TEST(TaskQueue, WaitsForATaskOrTheEnd) {
  TaskQueue queue;
  EXPECT_FALSE(queue.wait_for(std::chrono::milliseconds(1)));
  bool ran = false;
  std::thread other([&] { queue.post([&ran] { ran = true; }); });
  queue.wait();
  (*queue.next())();
  other.join();
  EXPECT_TRUE(ran);
  EXPECT_FALSE(queue.next());
  std::thread ending([&] { queue.stop(); });
  queue.wait();
  ending.join();
  EXPECT_TRUE(queue.stopped());
}

}  // namespace
}  // namespace lowgear::agent
