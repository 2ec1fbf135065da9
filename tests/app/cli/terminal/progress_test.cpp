#include "app/cli/terminal/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

namespace lowgear::cli {
namespace {

class Silent final : public Progress {
 public:
  void update(std::string_view /*activity*/, double /*fraction*/) override {}
};

class Stopping final : public Progress {
 public:
  void update(std::string_view /*activity*/, double /*fraction*/) override { throw std::runtime_error("stopped"); }
};

/// Stops once so many tasks have begun.
class StoppingOnceBegun final : public Progress {
 public:
  StoppingOnceBegun(const std::atomic<int>& begun, int tasks) : begun_(begun), tasks_(tasks) {}
  void update(std::string_view /*activity*/, double /*fraction*/) override {
    if (begun_ == tasks_) throw std::runtime_error("stopped");
  }

 private:
  const std::atomic<int>& begun_;
  int tasks_;
};

class Counted {
 public:
  explicit Counted(std::atomic<int>& ended) : ended_(ended) {}
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { ++ended_; }

 private:
  std::atomic<int>& ended_;
};

void run_until_stopped(const ParallelTask& task, std::atomic<int>& ended) {
  const Counted counted(ended);
  while (true) task.progress.update("", 0);
}

TEST(RunParallel, RunsEveryTaskOnce) {
  for (const std::size_t threads : {std::size_t{1}, std::size_t{3}, std::size_t{64}}) {
    std::vector<std::atomic<int>> runs(50);
    std::atomic<std::size_t> most = 0;
    Silent progress;
    run_parallel(runs.size(), threads, "", progress, [&](const ParallelTask& task) {
      ++runs[task.index];
      std::size_t seen = most;
      while (task.thread > seen && !most.compare_exchange_weak(seen, task.thread)) {
      }
    });
    EXPECT_TRUE(std::ranges::all_of(runs, [](const auto& count) { return count == 1; })) << threads;
    EXPECT_LT(most, threads);
  }
}

TEST(RunParallel, HasNothingToDoForNoTasks) {
  Stopping progress;
  run_parallel(0, 4, "", progress, [](const ParallelTask&) { FAIL(); });
}

TEST(RunParallel, ThrowsWhatATaskThrew) {
  Silent progress;
  const auto work = [](const ParallelTask& task) {
    if (task.index == 7) throw std::out_of_range("seventh");
  };
  EXPECT_THROW(run_parallel(100, 4, "", progress, work), std::out_of_range);
}

TEST(RunParallel, EndsTasksThatTellTheirProgressWhenItIsStopped) {
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  StoppingOnceBegun progress(begun, 2);
  const auto endless = [&](const ParallelTask& task) {
    ++begun;
    run_until_stopped(task, ended);
  };
  EXPECT_THROW(run_parallel(2, 2, "", progress, endless), std::runtime_error);
  EXPECT_EQ(ended, 2);
}

TEST(StartTask, FinishesItsWorkMeanwhile) {
  Silent progress;
  int made = 0;
  const auto task = start_task([&made](Progress& /*stop*/) { made = 7; });
  task->finish("", progress);
  EXPECT_EQ(made, 7);
}

TEST(StartTask, ThrowsWhatTheWorkThrew) {
  Silent progress;
  const auto task = start_task([](Progress& /*stop*/) { throw std::out_of_range("work"); });
  EXPECT_THROW(task->finish("", progress), std::out_of_range);
}

TEST(StartTask, StopsWorkThatReportsProgressAtItsEnd) {
  for (const bool waits : {false, true}) {
    std::atomic<bool> begun = false;
    std::atomic<int> ended = 0;
    {
      const auto task = start_task([&](Progress& stop) {
        const Counted counted(ended);
        begun = true;
        begun.notify_one();
        while (true) stop.update("", 0);
      });
      begun.wait(false);
      Stopping progress;
      if (waits) {
        EXPECT_THROW(task->finish("", progress), std::runtime_error);
      }
    }
    EXPECT_EQ(ended, 1) << waits;
  }
}

}  // namespace
}  // namespace lowgear::cli
