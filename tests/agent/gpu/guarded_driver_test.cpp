#include "agent/gpu/guarded_driver.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lowgear::agent {

namespace {

TEST(DriverThread, IsWaitedFor) {
  std::promise<void> told_to_end;
  std::atomic<bool> done = false;
  {
    const DriverThread thread([&, told = told_to_end.get_future().share()] {
      told.wait();
      done = true;
    });
    told_to_end.set_value();
  }
  EXPECT_TRUE(done);
}

TEST(DriverThread, IsLeftBehindWithWhatItOwnsWhenItDoesNotReturn) {
  struct Driver {
    std::promise<int> used_after;
    int value = 7;
  };
  auto driver = std::make_shared<Driver>();
  std::promise<void> answers;
  std::future<int> used_after = driver->used_after.get_future();
  {
    DriverThread thread([driver, answered = answers.get_future().share()] {
      answered.wait();
      driver->used_after.set_value(driver->value);
    });
    driver.reset();
    thread.end_until(DriverThread::Clock::now());
  }
  answers.set_value();
  EXPECT_EQ(used_after.get(), 7);
}

/// Ends a process that says by its code whether what is static was destroyed.
[[noreturn]] void end_with_static_objects() {
  constexpr int kDestroyed = 9;
  std::atexit([] { ::_exit(kDestroyed); });
  end_process(3);
}

TEST(DriverThread, LosesNothingThatIsStaticAtTheEndOfTheProcessWhenItIsLeftBehind) {
  const auto end_with_a_thread = [](bool returns) {
    std::promise<void> answers;
    DriverThread thread([returns, answered = answers.get_future().share()] {
      if (!returns) answered.wait();
    });
    thread.end_until(DriverThread::Clock::now() + (returns ? std::chrono::hours(1) : std::chrono::hours(0)));
    end_with_static_objects();
  };
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(end_with_a_thread(false), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(end_with_a_thread(true), testing::ExitedWithCode(9), "") << "a usual end destroys everything";
}

TEST(DriverThread, EndsOnce) {
  DriverThread thread([] {});
  thread.end_until(DriverThread::Clock::now() + DriverThread::kPatience);
  thread.end_until(DriverThread::Clock::now());
}

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
