#include "estimating/estimator/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "estimating/estimator/costs/roofline_costs.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/job/model_catalogue.h"
#include "measurement.h"
#include "section.h"

namespace lowgear::bench {
namespace {

constexpr double kReachPerS = 5000;
constexpr int kRepeats = 3;
/// Layouts whose quick plan is compared with the planner's.
constexpr std::size_t kPlanned = 10;

struct SearchCase {
  std::string_view model;
  std::string_view gpu;
  int gpus;
  std::int64_t global_batch;
  std::int64_t sequence;
};
constexpr std::array kCases{
    SearchCase{"llama-3-8b", "h100-sxm", 16, 256, 8192}, SearchCase{"llama-3-70b", "h100-sxm", 64, 512, 8192},
    SearchCase{"llama-3-70b", "h100-sxm", 1024, 2048, 8192}, SearchCase{"gpt3-175b", "a100-80gb-sxm", 512, 1536, 2048},
    SearchCase{"mixtral-8x7b", "h200-sxm", 64, 512, 4096}};

estimator::TrainingJob job_of(const SearchCase& search) {
  estimator::TrainingJob job;
  job.model = estimator::named_model(search.model);
  job.gpu = estimator::named_gpu(search.gpu);
  job.cluster = default_cluster(job.gpu);
  job.batch = {search.global_batch, 1, search.sequence};
  return job;
}

/// Largest difference between the quick plan and the planner's, of the planner's, over the best layouts.
double quick_error_pct(const estimator::TrainingJob& job, const estimator::SearchOutcome& outcome,
                       const estimator::CostSources& sources) {
  double largest_pct = 0;
  for (std::size_t i = 0; i < std::min(kPlanned, outcome.results.size()); ++i) {
    const estimator::SearchResult& result = outcome.results[i];
    estimator::TrainingJob candidate = job;
    apply(result.layout, candidate);
    estimator::PlannedJob planner(candidate, estimate_iteration(candidate, sources));
    const double planned_j = planner.plan_in_time().energy_j;
    largest_pct = std::max(largest_pct, 100 * std::abs(result.planned_energy_j - planned_j) / planned_j);
  }
  return largest_pct;
}

}  // namespace

AccuracySection search_section() {
  AccuracySection section;
  section.markdown =
      "## Search\n\nOn one thread, median of three. *Fitting* layouts are estimated in full: memory, iteration, energy "
      "and a quick plan. For *too large* ones only memory is estimated; layouts that do not divide the job evenly are "
      "not generated. *Fully estimated a second*: fitting layouts by the whole time. *Quick plan*: the largest "
      "difference between "
      "the energy that ranks layouts and the energy of the planner, over the ten fastest layouts.\n\n"
      "| model | GPUs | fitting | too large | s | fully estimated a second | all a second | quick plan |\n"
      "|---|---|---|---|---|---|---|---|\n";
  double slowest_per_s = 0;
  for (const SearchCase& search : kCases) {
    const estimator::TrainingJob job = job_of(search);
    const estimator::RooflineCosts operators(job.gpu);
    const estimator::LinkCosts links(job.cluster);
    const estimator::CostSources sources{operators, links};
    const estimator::SearchSpace space = enumerate_layouts(job, {.gpus = search.gpus});
    estimator::SearchOutcome outcome;
    std::vector<double> seconds;
    for (int i = 0; i < kRepeats; ++i) {
      seconds.push_back(seconds_of([&] { outcome = evaluate(job, space.layouts, sources); }));
    }
    const double median_s = spread_of(seconds).median;
    const double fitting_per_s = static_cast<double>(outcome.results.size()) / median_s;
    rank(outcome.results, estimator::SearchObjective::time, {});
    section.markdown +=
        fmt::format("| {} | {} {} | {} | {} | {:.2f} | {:.0f} | {:.0f} | {:.2f} % |\n", search.model, search.gpus,
                    search.gpu, outcome.results.size(), outcome.too_large, median_s, fitting_per_s,
                    static_cast<double>(space.layouts.size()) / median_s, quick_error_pct(job, outcome, sources));
    slowest_per_s = slowest_per_s > 0 ? std::min(slowest_per_s, fitting_per_s) : fitting_per_s;
  }
  section.targets.push_back({"layouts that a search estimates in full, a second and core (least of five searches)",
                             fmt::format("{:.0f}", slowest_per_s), fmt::format("≥ {:.0f}", kReachPerS),
                             slowest_per_s >= kReachPerS});
  return section;
}

}  // namespace lowgear::bench
