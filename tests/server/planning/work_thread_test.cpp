#include "server/planning/work_thread.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "server/test_loop.h"

namespace lowgear::server {
namespace {

TEST(WorkThread, WorksElsewhereInOrderAndIsDoneHere) {
  TestLoop loop;
  WorkThread worker(loop.post());
  const std::thread::id here = std::this_thread::get_id();
  std::vector<int> worked;
  std::vector<int> done;
  for (int i = 0; i < 20; ++i) {
    worker.run(
        [&, i] {
          EXPECT_NE(std::this_thread::get_id(), here);
          worked.push_back(i);
        },
        [&, i] {
          EXPECT_EQ(std::this_thread::get_id(), here);
          done.push_back(i);
        });
  }
  ASSERT_TRUE(loop.run_until([&] { return done.size() == 20; }));
  EXPECT_EQ(worked, done);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
}

TEST(WorkThread, DropsWhatWaitsWhenItEnds) {
  TestLoop loop;
  std::mutex gate;
  int worked = 0;
  gate.lock();
  {
    WorkThread worker(loop.post());
    worker.run([&] { const std::lock_guard wait(gate); }, [] {});
    for (int i = 0; i < 1000; ++i) worker.run([&] { ++worked; }, [] {});
    gate.unlock();
  }
  EXPECT_LE(worked, 1000);
}

}  // namespace
}  // namespace lowgear::server
