#pragma once

#include <string>

#include "app/cli/arguments/price_arguments.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/iteration/planned_estimate.h"
#include "report/report/estimate_report.h"

namespace lowgear {

/// The page of `lowgear estimate --report`: where time, energy and memory go on every pipeline rank, and the frontier.
/// `command` is the command line.
[[nodiscard]] EstimateReport estimate_page(const JobEstimate& estimate, const PlannedEstimate& planned,
                                           const PriceArguments& prices, std::string command);

/// Bars for a page: a row for every pipeline rank, or for some where there are more than a page can show.
[[nodiscard]] ReportBars time_bars(const TrainingJob& job, const IterationEstimate& iteration);
[[nodiscard]] ReportBars energy_bars(const TrainingJob& job, const IterationEstimate& iteration);
[[nodiscard]] ReportBars memory_bars(const MemoryEstimate& memory);

/// `llama-3-70b on 64 h100-sxm`.
[[nodiscard]] std::string job_title(const TrainingJob& job, int gpus);

}  // namespace lowgear
