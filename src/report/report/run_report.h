#pragma once

#include <string>

#include "planning/planner/planners/pipeline_planner.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/replay.h"
#include "planning/workflow/comparison.h"
#include "planning/workflow/profiled_pipeline.h"
#include "planning/workflow/run_folder.h"
#include "report/report/report_data.h"

namespace lowgear::report {

/// A replay with its clocks and settings as the report and traces show it.
[[nodiscard]] Timeline report_timeline(std::string label, const schedule::PipelineDag& dag,
                                       const simulator::Timeline& timeline, const plan::OpChoicesView& choices);

/// The figures of the report on a run of `lowgear plan`. Throws as a replay.
[[nodiscard]] Data build_report(const workflow::RunContents& contents);

/// The figures of the report on a comparison of policies: the frontier, the policies as points, and the timeline of the
/// fastest plan. `planner` is for `pipeline`. Version and the profile's name are left to the caller. Throws what a
/// replay throws.
[[nodiscard]] Data comparison_report(const workflow::PolicyComparison& comparison,
                                     const workflow::ProfiledPipeline& pipeline, planner::PipelinePlanner& planner,
                                     double switch_latency_s);

}  // namespace lowgear::report
