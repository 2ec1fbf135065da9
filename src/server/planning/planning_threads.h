#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/core/progress.h"
#include "server/planning/planning_service.h"

namespace lowgear::server {

/// How long planning may take, in processor time.
struct PlanningTimes {
  /// After which a task makes room for others, and begins again among those that take long.
  double slice_s = 2;
  /// Of one task, for a job of at most `kActionsPerLimit` actions; larger ones have more in
  /// proportion. What takes longer is answered with an error.
  double limit_s = 120;
};

/// Jobs up to this size have `PlanningTimes::limit_s` itself.
inline constexpr std::size_t kActionsPerLimit = 100'000;

/// Bounds what planning for one job takes: the planner's next report throws `Stopped` once the time is over, or once
/// the job is over. Time is the processor time of the thread, so that a busy machine does not shorten it. Thread-safe.
class PlanningLimit final : public Progress {
 public:
  /// From now on the calling thread may compute for `seconds`. Other threads are not bounded.
  void begin(double seconds);
  /// As long as is needed, until the next `begin`.
  void end();
  /// For good, and for all threads.
  void stop() { switch_.stop(); }
  [[nodiscard]] bool is_stopped() const { return switch_.is_stopped(); }

  void update(std::string_view activity, double fraction) override;

 private:
  StopSwitch switch_;
  std::atomic<std::thread::id> bounded_{};  ///< that none has: nothing is bounded
  std::atomic<double> until_s_{0};          ///< of that thread's time
};

/// Plans on threads of its own. Tasks that take long run on as many threads again as the others, and those of large
/// jobs on as many more, so that each kind holds up only its own; what takes milliseconds is answered by one
/// more thread, which never waits for the others. Jobs take turns: each has one task that waits, and keeps its place
/// when a newer one takes that task's place. One job's tasks are done one after the other, and so are those of jobs
/// whose pipelines are the same: the first one solves them for all. Solved pipelines are kept for the jobs that were
/// planned last, as many of them as their pipelines' size allows (`kKeptActions`).
class PlanningThreads final : public PlanningService {
 public:
  /// `post` runs a function on the server's thread; it is called from any thread.
  PlanningThreads(int threads, std::function<void(std::function<void()>)> post, PlanningTimes times = {});
  /// Stops, and waits for the threads: until the planner's next report of progress.
  ~PlanningThreads() override;
  PlanningThreads(const PlanningThreads&) = delete;
  PlanningThreads& operator=(const PlanningThreads&) = delete;

  void submit(PlanningTask task, Done done) override;
  void forget(const std::string& job) override;
  /// Stops planning for good: tasks under way and waiting ones get no answer.
  void stop();

  /// How many jobs are planned for at present, and how many wait for that.
  struct Load {
    std::size_t running = 0;
    std::size_t waiting = 0;
  };
  [[nodiscard]] Load load() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowgear::server
