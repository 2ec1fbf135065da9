#pragma once

#include <string>

#include "planning/schedule/dag.h"
#include "planning/simulator/replay.h"
#include "planning/workflow/run_contents.h"
#include "report/report/report_data.h"

namespace lowgear::report {

/// A replay with its clocks and settings as the report and traces show it.
[[nodiscard]] Timeline report_timeline(std::string label, const schedule::PipelineDag& dag,
                                       const simulator::Timeline& timeline, const plan::OpChoicesView& choices);

/// The figures of the report on a run of `lowgear plan`. Throws what a replay throws.
[[nodiscard]] Data build_report(const workflow::RunContents& contents);

}  // namespace lowgear::report
