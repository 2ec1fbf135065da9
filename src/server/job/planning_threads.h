#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/job/planning_service.h"
#include "server/planning/planning_times.h"

namespace lowgear::server {

/// Plans on threads of its own. Tasks that take long run on as many threads again as the others, and those of large
/// jobs on as many more, so that each kind holds up only its own; what takes milliseconds is answered by one
/// more thread, which never waits for the others. Jobs take turns: each has one task that waits, and keeps its place
/// when a newer one takes that task's place. One job's tasks are done one after the other, and so are those of jobs
/// whose pipelines are the same: the first one solves them for all. What was solved is kept for the jobs that were
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
  /// Stops what is being planned and drops what waits, all without an answer; nothing is planned any more.
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
