#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/planning_service.h"

namespace lowgear {

/// Actions of the schedules whose solved pipelines are kept: some 1 GiB, as one takes up to 10 kB with its stragglers.
/// That is 100 jobs of 8 stages and 64 microbatches, or 800 of 4 and 16.
inline constexpr std::size_t kKeptActions = 100'000;

/// Plans on threads of its own. A job stays on one of them, so that its tasks are done one after the other; what can be
/// had in milliseconds is answered by one more, which never waits for the others. What was solved is kept for the jobs
/// that were planned last, as many of them as their pipelines' size allows (`kKeptActions`).
class PlanningThreads final : public PlanningService {
 public:
  /// `post` runs a function on the server's thread; it is called from any thread.
  PlanningThreads(int threads, std::function<void(std::function<void()>)> post);
  /// Waits for what is being planned at the moment; drops what waits.
  ~PlanningThreads() override;
  PlanningThreads(const PlanningThreads&) = delete;
  PlanningThreads& operator=(const PlanningThreads&) = delete;

  void submit(PlanningTask task, Done done) override;
  void forget(const std::string& job) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowgear
