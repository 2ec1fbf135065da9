#include "server/planning/planning_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "base/core/progress.h"

namespace lowgear::server {

namespace {

double thread_time_s() {
  timespec time{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

void PlanningLimit::begin(double seconds) {
  until_s_ = thread_time_s() + seconds;
  bounded_ = std::this_thread::get_id();
}

void PlanningLimit::end() { bounded_ = std::thread::id(); }

void PlanningLimit::update(std::string_view activity, double fraction) {
  switch_.update(activity, fraction);
  if (bounded_ == std::this_thread::get_id() && thread_time_s() > until_s_) throw Stopped();
}

namespace {

PlanningAnswer answer_to(const PlanningTask& task) {
  PlanningAnswer answer;
  answer.serial = task.serial;
  answer.reason = task.reason;
  return answer;
}

std::optional<PlanningAnswer> quick_answer(MeasuredJob& planner, const PlanningTask& task) {
  if (task.conditions.full_clocks) return std::nullopt;  // the profile is checked first
  const double start_s = monotonic_s();
  auto quick = planner.quick_plan(task.conditions);
  if (!quick) return std::nullopt;
  PlanningAnswer answer = answer_to(task);
  answer.preliminary = !quick->is_best;
  answer.planned = PlannedJob{.plan = std::move(quick->plan), .envpipe = {}, .order = {}};
  answer.planned->doubts = planner.doubts(task.conditions, answer.planned->plan);
  answer.seconds = monotonic_s() - start_s;
  return answer;
}

PlanningAnswer best_answer(MeasuredJob& planner, const PlanningTask& task) {
  PlanningAnswer answer = answer_to(task);
  const double start_s = monotonic_s();
  if (task.kind == PlanningTask::Kind::judge_profile) {
    answer.verdict = planner.judge_profile(task.conditions);
  } else {
    const std::optional<FullClockIteration>& full_clocks = task.conditions.full_clocks;
    ProfileVerdict verdict;
    if (full_clocks) verdict.contradiction = planner.contradiction(*full_clocks);
    if (verdict.contradiction.empty()) {
      answer.planned = planner.plan(task.conditions);
    } else {
      answer.verdict = std::move(verdict);
    }
  }
  answer.seconds = monotonic_s() - start_s;
  return answer;
}

PlanningAnswer failed_answer(const PlanningTask& task, const std::exception& error) {
  PlanningAnswer answer = answer_to(task);
  answer.error = error.what();
  return answer;
}

/// Where tasks wait.
enum class Lane : unsigned char {
  quick,  ///< for what was solved already
  brief,  ///< one time slice each
  long_,  ///< what took longer
  large,  ///< jobs that take long in any case
};
constexpr std::size_t kLanes = 4;

struct Piece {
  PlanningTask task;
  PlanningService::Done done;
  /// Fingerprint of the pipeline that the task solves, if any: of several such tasks the others wait for the first one.
  std::optional<std::size_t> pipeline = {};
};

/// Plans within power caps are made of more than the pipeline, those of other policies solve none, and profiles are
/// judged by other ones.
std::optional<std::size_t> solved_pipeline(const PlanningTask& task) {
  const api::PlanRequest& request = task.conditions.request;
  if (task.conditions.envpipe || request.policy != planner::kLowgearPolicy) return std::nullopt;
  if (task.kind != PlanningTask::Kind::plan || request.power_cap) return std::nullopt;
  return fingerprint(*task.model);
}

/// Tasks that wait, one of each job.
class Waiting {
 public:
  /// In place of an older task of the job; nothing when a newer one waits.
  void add(Piece piece) {
    const auto older = find(piece.task.job);
    if (older == pieces_.end()) return pieces_.push_back(std::move(piece));
    if (older->task.serial < piece.task.serial) *older = std::move(piece);
  }
  [[nodiscard]] bool has(const std::string& job) { return find(job) != pieces_.end(); }
  void drop(const std::string& job, std::uint64_t up_to_serial) {
    const auto piece = find(job);
    if (piece != pieces_.end() && piece->task.serial <= up_to_serial) pieces_.erase(piece);
  }
  void clear() { pieces_.clear(); }
  [[nodiscard]] std::size_t size() const { return pieces_.size(); }
  [[nodiscard]] bool has(std::size_t pipeline) const {
    return std::ranges::any_of(pieces_, [&](const Piece& piece) { return piece.pipeline == pipeline; });
  }
  /// The one that has waited longest, of those that may begin.
  [[nodiscard]] std::optional<Piece> take(const std::function<bool(const Piece&)>& may_begin) {
    const auto next = std::ranges::find_if(pieces_, may_begin);
    if (next == pieces_.end()) return std::nullopt;
    std::optional<Piece> piece(std::move(*next));
    pieces_.erase(next);
    return piece;
  }

 private:
  [[nodiscard]] std::deque<Piece>::iterator find(const std::string& job) {
    return std::ranges::find(pieces_, job, [](const Piece& piece) { return piece.task.job; });
  }

  std::deque<Piece> pieces_;
};

constexpr std::size_t kBriefActions = 20'000;

bool is_large(const PlanningTask& task) { return action_count(task.model->schedule) > kBriefActions; }

/// The planners of jobs, and what was solved for them. The job that was planned longest ago goes first.
class Planners {
 public:
  /// Null when there is none for the task's model yet.
  [[nodiscard]] std::shared_ptr<MeasuredJob> find(const PlanningTask& task) {
    const std::lock_guard lock(mutex_);
    const auto found = planners_.find(task.job);
    if (found == planners_.end() || found->second.model != task.model) return nullptr;
    found->second.used = ++uses_;
    return found->second.planner;
  }

  /// Made when there is none; `limit` is then what bounds it for good.
  [[nodiscard]] std::shared_ptr<MeasuredJob> get(const PlanningTask& task,
                                                 const std::shared_ptr<PlanningLimit>& limit) {
    if (auto known = find(task)) return known;
    auto planner = std::make_shared<MeasuredJob>(task.model, limit, solved_);
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
    std::shared_ptr<MeasuredJob> planner;
    std::size_t actions = 0;  ///< of its schedule
    std::uint64_t used = 0;
  };

  void drop(std::map<std::string, Kept>::iterator entry) {
    if (entry == planners_.end()) return;
    actions_ -= entry->second.actions;
    planners_.erase(entry);
  }

  std::shared_ptr<SolvedPipelines> solved_ = std::make_shared<SolvedPipelines>();
  std::mutex mutex_;  ///< of what follows
  std::map<std::string, Kept> planners_;
  std::size_t actions_ = 0;  ///< of all
  std::uint64_t uses_ = 0;
};

}  // namespace

PlanningAnswer answer_task(MeasuredJob& planner, const PlanningTask& task,
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
  Impl(int threads, std::function<void(std::function<void()>)> post, const PlanningTimes& times)
      : post_(std::move(post)), times_(times) {
    for (int i = 0; i < threads; ++i) {
      for (const Lane lane : {Lane::brief, Lane::long_, Lane::large}) {
        threads_.emplace_back([this, lane](const std::stop_token& stop) { plan_until(stop, lane); });
      }
    }
    threads_.emplace_back([this](const std::stop_token& stop) { plan_quickly_until(stop); });
  }
  ~Impl() { stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void submit(Piece piece) {
    const bool is_large_job = is_large(piece.task);
    const bool is_quick = piece.task.kind == PlanningTask::Kind::plan && piece.task.quick_first && !is_large_job;
    add(std::move(piece), is_quick ? Lane::quick : is_large_job ? Lane::large : Lane::brief);
  }

  void forget(const std::string& job) {
    const std::lock_guard lock(mutex_);
    for (Waiting& waiting : waiting_) waiting.drop(job, std::numeric_limits<std::uint64_t>::max());
    wake_.notify_all();  // others may have waited for what it would have solved
    planners_.forget(job);
    const auto limit = limits_.find(job);
    if (limit == limits_.end()) return;
    limit->second->stop();
    limits_.erase(limit);
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    for (Waiting& waiting : waiting_) waiting.clear();
    for (const auto& [job, limit] : limits_) limit->stop();
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  [[nodiscard]] Load load() const {
    const std::lock_guard lock(mutex_);
    Load load{.running = busy_.size()};
    for (const Waiting& waiting : waiting_) load.waiting += waiting.size();
    return load;
  }

 private:
  /// A task that a thread has begun, and what bounds it.
  struct UnderWay {
    Piece piece;
    std::shared_ptr<PlanningLimit> limit;
  };

  [[nodiscard]] Waiting& waiting(Lane lane) { return waiting_.at(static_cast<std::size_t>(lane)); }

  void add(Piece piece, Lane lane) {
    const std::lock_guard lock(mutex_);
    auto& limit = limits_[piece.task.job];
    if (!limit) limit = std::make_shared<PlanningLimit>();
    put(std::move(piece), lane);
  }

  /// `mutex_` is held.
  void put(Piece piece, Lane lane) {
    // What took too long before will again.
    if (lane == Lane::brief && waiting(Lane::long_).has(piece.task.job)) lane = Lane::long_;
    waiting(lane).add(std::move(piece));
    wake_.notify_all();
  }

  /// Empty when the threads are to end.
  [[nodiscard]] std::optional<UnderWay> take(const std::stop_token& stop, Lane lane) {
    std::unique_lock lock(mutex_);
    std::optional<Piece> piece;
    const bool found = wake_.wait(lock, stop, [&] {
      piece = waiting(lane).take([&](const Piece& next) { return lane == Lane::quick || may_begin(next, lane); });
      return piece.has_value();
    });
    if (!found || stop.stop_requested()) return std::nullopt;
    if (lane != Lane::quick) busy_[piece->task.job] = piece->pipeline;
    std::shared_ptr<PlanningLimit> limit = limits_.at(piece->task.job);
    return UnderWay{std::move(*piece), std::move(limit)};
  }

  /// `mutex_` is held. Whether neither the job is planned for, nor what the task solves is being solved for another one
  /// or waits for that where there is more time.
  [[nodiscard]] bool may_begin(const Piece& piece, Lane lane) {
    if (busy_.contains(piece.task.job)) return false;
    if (!piece.pipeline) return true;
    if (lane == Lane::brief && waiting(Lane::long_).has(*piece.pipeline)) return false;
    return std::ranges::none_of(busy_, [&](const auto& entry) { return entry.second == piece.pipeline; });
  }

  void give(const Done& done, PlanningAnswer answer) const {
    post_([done, answer = std::move(answer)] { done(answer); });
  }

  /// Waits after others once more; not when the job is over.
  void hand_on(const UnderWay& work, Lane lane) {
    const std::lock_guard lock(mutex_);
    if (!work.limit->is_stopped()) put(work.piece, lane);
  }

  void plan_quickly_until(const std::stop_token& stop) {
    while (const std::optional<UnderWay> work = take(stop, Lane::quick)) plan_quickly(*work);
  }

  void plan_quickly(const UnderWay& work) {
    const PlanningTask& task = work.piece.task;
    try {
      const std::shared_ptr<MeasuredJob> planner = planners_.find(task);
      if (auto answer = planner ? quick_answer(*planner, task) : std::nullopt) {
        const bool is_all = !answer->preliminary;
        give(work.piece.done, std::move(*answer));
        if (is_all) return drop_older(task);
      }
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the thorough plan fails alike, and says so
    }
    hand_on(work, Lane::brief);
  }

  void drop_older(const PlanningTask& task) {
    const std::lock_guard lock(mutex_);
    for (const Lane lane : {Lane::brief, Lane::long_, Lane::large}) waiting(lane).drop(task.job, task.serial);
    wake_.notify_all();  // others may have waited for what it would have solved
  }

  void plan_until(const std::stop_token& stop, Lane lane) {
    while (const std::optional<UnderWay> work = take(stop, lane)) {
      plan_thoroughly(*work, lane);
      const std::lock_guard lock(mutex_);
      // Solutions of a job that has ended meanwhile are dropped.
      if (work->limit->is_stopped()) planners_.forget(work->piece.task.job);
      busy_.erase(work->piece.task.job);
      wake_.notify_all();
    }
  }

  void plan_thoroughly(const UnderWay& work, Lane lane) {
    const PlanningTask& task = work.piece.task;
    const double limit_s = lane == Lane::brief ? times_.slice_s : limit_of(task);
    work.limit->begin(limit_s);
    try {
      const std::shared_ptr<MeasuredJob> planner = planners_.get(task, work.limit);
      // Smaller ones have been in the quick lane.
      const bool tries_quick = task.kind == PlanningTask::Kind::plan && task.quick_first && is_large(task);
      std::optional<PlanningAnswer> quick = tries_quick ? quick_answer(*planner, task) : std::nullopt;
      const bool is_all = quick && !quick->preliminary;
      if (quick) give(work.piece.done, std::move(*quick));
      if (!is_all) give(work.piece.done, best_answer(*planner, task));
    } catch (const Stopped&) {
      if (lane == Lane::brief) {
        hand_on(work, Lane::long_);
      } else if (!work.limit->is_stopped()) {
        give(work.piece.done, failed_answer(task, late_error(task, limit_s)));
      }
    } catch (const std::exception& error) {  // also a model for which there is no planner
      give(work.piece.done, failed_answer(task, error));
    }
    work.limit->end();
  }

  [[nodiscard]] double limit_of(const PlanningTask& task) const {
    const auto actions = static_cast<double>(action_count(task.model->schedule));
    return times_.limit_s * std::max(1.0, actions / static_cast<double>(kActionsPerLimit));
  }

  [[nodiscard]] static Error late_error(const PlanningTask& task, double limit_s) {
    return Error(
        fmt::format("planning took more than {:.4g} s of processor time, the limit for a job of {} units: raise "
                    "planning_limit_s in "
                    "the server's configuration, or train with fewer microbatches per iteration",
                    limit_s, action_count(task.model->schedule)));
  }

  std::function<void(std::function<void()>)> post_;
  PlanningTimes times_;
  Planners planners_;

  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable_any wake_;
  std::array<Waiting, kLanes> waiting_;                           ///< by lane
  std::map<std::string, std::optional<std::size_t>> busy_;        ///< jobs with a task in another than the quick
                                                                  ///< lane, and what that solves
  std::map<std::string, std::shared_ptr<PlanningLimit>> limits_;  ///< of jobs that are not over
  std::vector<std::jthread> threads_;                             ///< last: they use everything above
};

PlanningThreads::PlanningThreads(int threads, std::function<void(std::function<void()>)> post, PlanningTimes times)
    : impl_(std::make_unique<Impl>(threads, std::move(post), times)) {}

PlanningThreads::~PlanningThreads() = default;

void PlanningThreads::submit(PlanningTask task, Done done) {
  const std::optional<std::size_t> pipeline = solved_pipeline(task);
  impl_->submit({std::move(task), std::move(done), pipeline});
}

void PlanningThreads::forget(const std::string& job) { impl_->forget(job); }

void PlanningThreads::stop() { impl_->stop(); }

PlanningThreads::Load PlanningThreads::load() const { return impl_->load(); }

}  // namespace lowgear::server
