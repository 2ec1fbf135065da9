#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "server/planning_service.h"

namespace lowgear {

/// Plans on threads of its own. A job stays on one of them, where what was solved for it is kept.
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
  class Worker;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace lowgear
