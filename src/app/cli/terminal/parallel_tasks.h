#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "base/core/progress.h"
#include "base/core/task_runner.h"

namespace lowgear::cli {

/// A TaskRunner with threads of its own.
void run_parallel(std::size_t count, std::size_t threads, std::string_view activity, Progress& progress,
                  const std::function<void(const ParallelTask&)>& work);

}  // namespace lowgear::cli
