#pragma once

#include "planning/planner/planners/pipeline_planner.h"
#include "planning/workflow/comparison.h"
#include "planning/workflow/profiled_pipeline.h"
#include "report/report/report_data.h"

namespace lowgear {

/// The figures of the report on a comparison of policies: the frontier, the policies as points, and the timeline of the
/// fastest plan. `planner` is for `pipeline`. Version and the profile's name are left to the caller. Throws what a
/// replay throws.
[[nodiscard]] ReportData comparison_report(const PolicyComparison& comparison, const ProfiledPipeline& pipeline,
                                           PipelinePlanner& planner, double switch_latency_s);

}  // namespace lowgear
