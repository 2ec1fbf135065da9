#include "rivals/policies/perseus/perseus_series.h"

#include <optional>
#include <ranges>
#include <vector>

#include "rivals/policies/perseus/perseus_policy.h"

namespace lowgear::policies {
namespace {

double effective_energy_j(const api::ProfiledPipeline& pipeline, std::span<const int> clocks_mhz) {
  double energy_j = 0;
  for (std::size_t i = 0; i < clocks_mhz.size(); ++i) {
    const schedule::ComputeOp& op = pipeline.dag.ops[i];
    const profile::Measurement& m = pipeline.profile.at_clock(op.stage, op.kind, clocks_mhz[i]);
    energy_j += m.energy_j - pipeline.blocking_power_w[static_cast<std::size_t>(op.rank)] * m.time_s;
  }
  return energy_j;
}

}  // namespace

PerseusCandidate perseus_candidate(const api::ProfiledPipeline& pipeline, const plan::Plan& plan) {
  plan::refuse_settings(plan, "Perseus' file format");
  const std::vector<int> clocks_mhz = clocks_for(plan, pipeline.dag);
  return {formats::perseus_plan(pipeline.dag, clocks_mhz), effective_energy_j(pipeline, clocks_mhz), plan.energy_j};
}

void write_perseus_series(std::span<const PerseusCandidate> fastest_first, formats::PerseusDialect dialect,
                          const std::function<void(int number, const std::string& text)>& write) {
  std::optional<double> slower_effective_j;
  int number = 0;
  for (const PerseusCandidate& candidate : fastest_first | std::views::reverse) {
    const formats::PerseusPlanFigures figures{
        .iteration = number,
        .cost_change_j = slower_effective_j ? candidate.effective_energy_j - *slower_effective_j : 0,
        .total_cost_j = candidate.effective_energy_j,
        .refined_cost_j = candidate.energy_j};
    write(number, write_perseus_plan(candidate.plan, figures, dialect));
    slower_effective_j = candidate.effective_energy_j;
    ++number;
  }
}

std::size_t write_perseus_frontier(const api::ProfiledPipeline& pipeline, const PerseusFrontierOptions& options,
                                   const std::function<void(int number, const std::string& text)>& write,
                                   Progress* progress) {
  const PerseusModel model(pipeline.problem(progress), options.model);
  const std::vector<std::size_t> rows = plan::sampled_places(model.frontier().size(), options.sampling);
  model.visit_plans(rows, [&](const PerseusModel::RowPlan& row) {
    const formats::PerseusPlanFigures figures{.iteration = static_cast<int>(row.row),
                                              .cost_change_j = row.cost_change_j,
                                              .total_cost_j = row.effective_energy_j,
                                              .refined_cost_j = row.figures.energy_j};
    write(figures.iteration,
          write_perseus_plan(formats::perseus_plan(pipeline.dag, row.clocks_mhz), figures, options.dialect));
  });
  return rows.size();
}

}  // namespace lowgear::policies
