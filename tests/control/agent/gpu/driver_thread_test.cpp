#include "control/agent/gpu/driver_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

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

TEST(DriverThread, EndsOnce) {
  DriverThread thread([] {});
  thread.end_until(DriverThread::Clock::now() + DriverThread::kPatience);
  thread.end_until(DriverThread::Clock::now());
}

}  // namespace
}  // namespace lowgear::agent
