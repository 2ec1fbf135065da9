#include "server/planning_threads.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/monotonic_clock.h"

namespace lowgear {
namespace {

PlanningAnswer answer_to(const PlanningTask& task) {
  PlanningAnswer answer;
  answer.serial = task.serial;
  answer.reason = task.reason;
  return answer;
}

std::optional<PlanningAnswer> quick_answer(JobPlanner& planner, const PlanningTask& task) {
  const double start_s = monotonic_s();
  auto quick = planner.quick_plan(task.conditions);
  if (!quick) return std::nullopt;
  PlanningAnswer answer = answer_to(task);
  answer.preliminary = !quick->is_best;
  answer.plan = std::move(quick->plan);
  answer.seconds = monotonic_s() - start_s;
  return answer;
}

PlanningAnswer best_answer(JobPlanner& planner, const PlanningTask& task) {
  PlanningAnswer answer = answer_to(task);
  const double start_s = monotonic_s();
  if (task.kind == PlanningTask::Kind::judge_profile) {
    answer.verdict = planner.judge_profile(task.conditions);
  } else {
    answer.plan = planner.plan(task.conditions);
  }
  answer.seconds = monotonic_s() - start_s;
  return answer;
}

PlanningAnswer failed_answer(const PlanningTask& task, const std::exception& error) {
  PlanningAnswer answer = answer_to(task);
  answer.error = error.what();
  return answer;
}

/// A thread and the tasks that wait for it, one of each job.
class Lane {
 public:
  using Done = PlanningService::Done;

  explicit Lane(std::function<void(PlanningTask, Done)> work)
      : work_(std::move(work)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  /// In place of an older task of the job; nothing when a newer one waits.
  void submit(PlanningTask task, Done done) {
    const std::lock_guard lock(mutex_);
    const auto waiting = std::ranges::find(waiting_, task.job, [](const auto& entry) { return entry.first.job; });
    if (waiting != waiting_.end()) {
      if (waiting->first.serial > task.serial) return;
      waiting_.erase(waiting);
    }
    waiting_.emplace_back(std::move(task), std::move(done));
    wake_.notify_one();
  }

  void drop(const std::string& job) {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const auto& entry) { return entry.first.job == job; });
  }

 private:
  void run(const std::stop_token& stop) {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
      auto [task, done] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work_(std::move(task), std::move(done));
    }
  }

  std::function<void(PlanningTask, Done)> work_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::pair<PlanningTask, Done>> waiting_;
  std::jthread thread_;  ///< last: it uses everything above
};

/// The planners of jobs, with what they have solved. The job that was planned longest ago goes first.
class Planners {
 public:
  /// Null when there is none for the task's model yet.
  [[nodiscard]] std::shared_ptr<JobPlanner> find(const PlanningTask& task) {
    const std::lock_guard lock(mutex_);
    const auto found = planners_.find(task.job);
    if (found == planners_.end() || found->second.model != task.model) return nullptr;
    found->second.used = ++uses_;
    return found->second.planner;
  }

  /// Made when there is none.
  [[nodiscard]] std::shared_ptr<JobPlanner> get(const PlanningTask& task) {
    if (auto known = find(task)) return known;
    auto planner = std::make_shared<JobPlanner>(task.model);
    const std::lock_guard lock(mutex_);
    drop(planners_.find(task.job));
    const std::size_t actions = action_count(task.model->schedule);
    planners_[task.job] = {.model = task.model, .planner = planner, .actions = actions, .used = ++uses_};
    actions_ += actions;
    while (actions_ > kKeptActions && planners_.size() > 1) {
      drop(std::ranges::min_element(planners_, {}, [](const auto& entry) { return entry.second.used; }));
    }
    return planner;
  }

  void forget(const std::string& job) {
    const std::lock_guard lock(mutex_);
    drop(planners_.find(job));
  }

 private:
  struct Kept {
    std::shared_ptr<const PipelineModel> model;
    std::shared_ptr<JobPlanner> planner;
    std::size_t actions = 0;  ///< of its schedule
    std::uint64_t used = 0;
  };

  void drop(std::map<std::string, Kept>::iterator entry) {
    if (entry == planners_.end()) return;
    actions_ -= entry->second.actions;
    planners_.erase(entry);
  }

  std::mutex mutex_;
  std::map<std::string, Kept> planners_;
  std::size_t actions_ = 0;  ///< of all
  std::uint64_t uses_ = 0;
};

}  // namespace

PlanningAnswer answer_task(JobPlanner& planner, const PlanningTask& task,
                           const std::function<void(PlanningAnswer)>& preliminary) {
  try {
    if (task.kind == PlanningTask::Kind::plan && task.quick_first && preliminary) {
      if (auto quick = quick_answer(planner, task)) {
        if (!quick->preliminary) return std::move(*quick);
        preliminary(std::move(*quick));
      }
    }
    return best_answer(planner, task);
  } catch (const std::exception& error) {
    return failed_answer(task, error);
  }
}

class PlanningThreads::Impl {
 public:
  Impl(int threads, std::function<void(std::function<void()>)> post) : post_(std::move(post)) {
    for (int i = 0; i < threads; ++i) {
      thorough_.push_back(
          std::make_unique<Lane>([this](const PlanningTask& task, const Done& done) { plan_thoroughly(task, done); }));
    }
    quick_.emplace([this](PlanningTask task, Done done) { plan_quickly(std::move(task), std::move(done)); });
  }

  void submit(PlanningTask task, Done done) {
    if (task.kind == PlanningTask::Kind::plan && task.quick_first) {
      thorough(task.job).drop(task.job);  // it is out of date
      return quick_->submit(std::move(task), std::move(done));
    }
    Lane& lane = thorough(task.job);
    lane.submit(std::move(task), std::move(done));
  }

  void forget(const std::string& job) {
    quick_->drop(job);
    thorough(job).drop(job);
    planners_.forget(job);
  }

 private:
  [[nodiscard]] Lane& thorough(const std::string& job) {
    return *thorough_[std::hash<std::string>{}(job) % thorough_.size()];
  }

  void give(const Done& done, PlanningAnswer answer) const {
    post_([done, answer = std::move(answer)] { done(answer); });
  }

  void plan_quickly(PlanningTask task, Done done) {
    try {
      const std::shared_ptr<JobPlanner> planner = planners_.find(task);
      if (auto answer = planner ? quick_answer(*planner, task) : std::nullopt) {
        const bool is_all = !answer->preliminary;
        give(done, std::move(*answer));
        if (is_all) return;
      }
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the thorough plan fails alike, and says so
    }
    Lane& lane = thorough(task.job);
    lane.submit(std::move(task), std::move(done));
  }

  void plan_thoroughly(const PlanningTask& task, const Done& done) {
    try {
      give(done, best_answer(*planners_.get(task), task));
    } catch (const std::exception& error) {  // also a model for which there is no planner
      give(done, failed_answer(task, error));
    }
  }

  std::function<void(std::function<void()>)> post_;
  Planners planners_;
  std::vector<std::unique_ptr<Lane>> thorough_;
  std::optional<Lane> quick_;  ///< last: it hands tasks on to the others
};

PlanningThreads::PlanningThreads(int threads, std::function<void(std::function<void()>)> post)
    : impl_(std::make_unique<Impl>(threads, std::move(post))) {}

PlanningThreads::~PlanningThreads() = default;

void PlanningThreads::submit(PlanningTask task, Done done) { impl_->submit(std::move(task), std::move(done)); }

void PlanningThreads::forget(const std::string& job) { impl_->forget(job); }

}  // namespace lowgear
