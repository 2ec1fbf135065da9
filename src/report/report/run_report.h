#pragma once

#include <string>

#include "planning/api/comparison.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/api/run_folder.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/replay.h"
#include "report/report/report_data.h"

namespace lowgear::report {

/// A replay with its clocks and settings as the report and traces show it.
[[nodiscard]] Timeline report_timeline(std::string label, const schedule::PipelineDag& dag,
                                       const simulator::Timeline& timeline, const plan::OpChoicesView& choices);

/// The figures of the report on a run of `lowgear plan`. Throws as a replay.
[[nodiscard]] Data build_report(const api::RunContents& contents);

/// The figures of the report on a comparison of policies: the frontier, the policies as points, and the timeline of the
/// fastest plan. `planner` is for `pipeline`. Version and the profile's name are left to the caller. Throws what a
/// replay throws.
[[nodiscard]] Data comparison_report(const api::PolicyComparison& comparison, const api::ProfiledPipeline& pipeline,
                                     planner::PipelinePlanner& planner, double late_by_s);

}  // namespace lowgear::report
