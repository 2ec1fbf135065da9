#pragma once

#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/console.h"
#include "estimating/sampling/sampling_options.h"

namespace lowgear::operations {

/// `lowgear sample curve`: measures the GPU that CUDA gives this process and writes samples, GPU file and page, or fits
/// the samples of an earlier run again.
[[nodiscard]] cli::ExitCode sample_curve(const sampling::SamplingOptions& options, cli::Console& console);

}  // namespace lowgear::operations
