#include "server/planning_threads.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/monotonic_clock.h"

namespace lowgear {
namespace {

/// Jobs of one thread whose solved pipelines are kept; the one that was planned longest ago goes first.
constexpr std::size_t kKeptJobs = 16;

}  // namespace

PlanningAnswer answer_task(JobPlanner& planner, const PlanningTask& task,
                           const std::function<void(PlanningAnswer)>& preliminary) {
  PlanningAnswer answer;
  answer.serial = task.serial;
  answer.reason = task.reason;
  const double start_s = monotonic_s();
  try {
    if (task.kind == PlanningTask::Kind::judge_profile) {
      answer.verdict = planner.judge_profile(task.conditions);
      answer.seconds = monotonic_s() - start_s;
      return answer;
    }
    if (task.quick_first && preliminary) {
      if (auto quick = planner.quick_plan(task.conditions)) {
        PlanningAnswer first = answer;
        first.preliminary = true;
        first.plan = std::move(quick);
        first.seconds = monotonic_s() - start_s;
        preliminary(std::move(first));
      }
    }
    answer.plan = planner.plan(task.conditions);
  } catch (const std::exception& error) {
    answer.error = error.what();
  }
  answer.seconds = monotonic_s() - start_s;
  return answer;
}

class PlanningThreads::Worker {
 public:
  explicit Worker(std::function<void(std::function<void()>)> post)
      : post_(std::move(post)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  void submit(PlanningTask task, Done done) {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const auto& entry) { return entry.first.job == task.job; });
    waiting_.emplace_back(std::move(task), std::move(done));
    wake_.notify_one();
  }

 private:
  struct Kept {
    std::shared_ptr<const PipelineModel> model;
    std::unique_ptr<JobPlanner> planner;
    std::uint64_t used = 0;
  };

  void run(const std::stop_token& stop) {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
      auto [task, done] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work(task, done);
    }
  }

  void work(const PlanningTask& task, const Done& done) {
    const auto give = [this, &done](PlanningAnswer answer) {
      post_([done, answer = std::move(answer)] { done(answer); });
    };
    try {
      give(answer_task(planner_for(task), task, give));
    } catch (const std::exception& error) {  // a model for which there is no planner
      PlanningAnswer answer;
      answer.serial = task.serial;
      answer.error = error.what();
      give(std::move(answer));
    }
  }

  JobPlanner& planner_for(const PlanningTask& task) {
    Kept& kept = planners_[task.job];
    if (kept.model != task.model) {
      kept.planner.reset();
      kept.planner = std::make_unique<JobPlanner>(task.model);
      kept.model = task.model;
    }
    kept.used = ++uses_;
    if (planners_.size() > kKeptJobs) {
      planners_.erase(std::ranges::min_element(planners_, {}, [](const auto& entry) { return entry.second.used; }));
    }
    return *kept.planner;
  }

  std::function<void(std::function<void()>)> post_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::pair<PlanningTask, Done>> waiting_;
  std::map<std::string, Kept> planners_;  ///< of the thread alone
  std::uint64_t uses_ = 0;
  std::jthread thread_;  ///< last: it uses everything above
};

PlanningThreads::PlanningThreads(int threads, std::function<void(std::function<void()>)> post) {
  for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>(post));
}

PlanningThreads::~PlanningThreads() = default;

void PlanningThreads::submit(PlanningTask task, Done done) {
  Worker& worker = *workers_[std::hash<std::string>{}(task.job) % workers_.size()];
  worker.submit(std::move(task), std::move(done));
}

}  // namespace lowgear
