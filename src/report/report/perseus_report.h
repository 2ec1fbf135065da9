#pragma once

#include "base/core/progress.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/plan/plan.h"
#include "report/report/html_page.h"
#include "rivals/policies/perseus/exponential_fit.h"

namespace lowgear::report {

/// Pictures that one page can have.
inline constexpr std::size_t kMaxPipelinePictures = 100;

/// How Perseus' planner comes to its plans, as lowtime's `--plot-interval` draws it: the fit of every stage and
/// instruction over the options of the profile, the frontier, and the pipeline at sampled points of it, replayed.
/// Version and command are left to the caller. Throws what PerseusModel throws, and InputError when the sampling makes
/// more than kMaxPipelinePictures pictures or the frontier has no points.
[[nodiscard]] Page perseus_report(const api::ProfiledPipeline& pipeline, const policies::PerseusOptions& options,
                                  const plan::PlanSampling& sampling, Progress* progress = nullptr);

}  // namespace lowgear::report
