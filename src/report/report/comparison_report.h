#pragma once

#include "planning/planner/planners/pipeline_planner.h"
#include "planning/workflow/comparison.h"
#include "planning/workflow/profiled_pipeline.h"
#include "report/report/report_data.h"

namespace lowgear::report {

/// The figures of the report on a comparison of policies: the frontier, the policies as points, and the timeline of the
/// fastest plan. `planner` is for `pipeline`. Version and the profile's name are left to the caller. Throws what a
/// replay throws.
[[nodiscard]] Data comparison_report(const workflow::PolicyComparison& comparison,
                                     const workflow::ProfiledPipeline& pipeline, planner::PipelinePlanner& planner,
                                     double switch_latency_s);

}  // namespace lowgear::report
