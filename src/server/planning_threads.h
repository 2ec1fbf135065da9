#pragma once

#include <functional>
#include <memory>

#include "server/planning_service.h"

namespace lowgear {

/// Plans on threads of its own. A job stays on one of them, so that its tasks are done one after the other; what can be
/// had in milliseconds is answered by one more, which never waits for the others. What was solved for a job is kept.
class PlanningThreads final : public PlanningService {
 public:
  /// `post` runs a function on the server's thread; it is called from any thread.
  PlanningThreads(int threads, std::function<void(std::function<void()>)> post);
  /// Waits for what is being planned at the moment; drops what waits.
  ~PlanningThreads() override;
  PlanningThreads(const PlanningThreads&) = delete;
  PlanningThreads& operator=(const PlanningThreads&) = delete;

  void submit(PlanningTask task, Done done) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowgear
