#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "base/core/progress.h"

namespace lowgear {

/// One of several tasks that do not depend on each other.
struct ParallelTask {
  std::size_t index;
  std::size_t thread;  ///< which of the threads runs it, for what they do not share
  Progress& progress;  ///< to call often: throws where the work is stopped
};

/// Runs `work` once for each index below `count`, in no certain order, on at most `threads` (at least 1) threads.
/// Reports the number of finished tasks to `progress` as `activity`, from the calling thread. Throws the first
/// exception of a task, or that of `progress`, after all threads have ended. Pure code, which starts no threads, gets a
/// runner as an argument.
using TaskRunner = std::function<void(std::size_t count, std::size_t threads, std::string_view activity,
                                      Progress& progress, const std::function<void(const ParallelTask&)>& work)>;

}  // namespace lowgear
