#pragma once

#include <string>

#include "app/cli/arguments/estimate_input.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "report/report/html_page.h"

namespace lowgear::cli {

/// The page of `lowgear estimate --html`: time, energy and memory of every pipeline rank by part, and the frontier.
/// `command` is the command line.
[[nodiscard]] report::Page estimate_page(const estimator::JobEstimate& estimate,
                                         const estimator::PlannedEstimate& planned, const PriceArguments& prices,
                                         std::string command);

/// Bars for a page: a row for every pipeline rank, or for some of them where a page cannot show all.
[[nodiscard]] report::Bars time_bars(const estimator::TrainingJob& job, const estimator::IterationEstimate& iteration);
[[nodiscard]] report::Bars energy_bars(const estimator::TrainingJob& job,
                                       const estimator::IterationEstimate& iteration);
[[nodiscard]] report::Bars memory_bars(const estimator::MemoryEstimate& memory);

/// `llama-3-70b on 64 h100-sxm`. A model of a file has the name of the file, or of the folder of a config.json.
[[nodiscard]] std::string job_title(const estimator::TrainingJob& job, int gpus);

}  // namespace lowgear::cli
