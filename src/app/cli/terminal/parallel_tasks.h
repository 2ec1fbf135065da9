#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "base/core/progress.h"

namespace lowgear::cli {

/// A TaskRunner with threads of its own.
void run_parallel(std::size_t count, std::size_t threads, std::string_view activity, Progress& progress,
                  const std::function<void(const ParallelTask&)>& work);

/// A TaskStarter.
[[nodiscard]] std::unique_ptr<StartedTask> start_task(std::function<void(Progress& progress)> work);

}  // namespace lowgear::cli
