/// Which rounding of a continuous optimum gives the plan of least energy: what the planner's choice of roundings rests
/// on. 100 deadlines evenly over [T_min, T*], without the mixtures of plans that the planner tries as well.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "measurement.h"
#include "pipelines.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/planner/planners/rounding.h"

namespace lowgear::bench {
namespace {

struct RuleRecord {
  planner::RoundingRule rule;
  int best = 0;     ///< deadlines at which no other rule gave a better plan
  Extent loss_pct;  ///< energy above that of the best rule at each deadline
};

std::vector<RuleRecord> all_rules() {
  std::vector<RuleRecord> records;
  for (const auto direction : {planner::RoundingRule::Direction::forward, planner::RoundingRule::Direction::backward}) {
    for (const int price_sixteenths : {0, 4, 8, 10, 12, 13, 14, 15, 16}) {
      records.push_back({{direction, price_sixteenths}, 0, {}});
    }
  }
  return records;
}

void record_deadline(planner::Rounder& rounder, const planner::ContinuousPlan& continuous,
                     std::vector<RuleRecord>& records) {
  std::vector<double> energy_j;
  for (const RuleRecord& record : records) {
    const planner::DiscretePlan plan = rounder.round(continuous, record.rule);
    energy_j.push_back(j_from_zj(plan.total_energy_zj(rounder.model().instance.blocking_power_nw)));
  }
  const double least_j = *std::ranges::min_element(energy_j);
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (energy_j[i] == least_j) ++records[i].best;
    records[i].loss_pct.add(100 * (energy_j[i] - least_j) / least_j);
  }
}

void record_pipeline(const Pipeline& pipeline, std::vector<RuleRecord>& records) {
  SolvedPipeline solved(pipeline);
  planner::Rounder rounder(solved.model());
  for (const double deadline_s : even_deadlines_s(solved.fastest_s(), solved.slowest_s())) {
    record_deadline(rounder, solved.solver().solve(solved.deadline_ps(deadline_s)), records);
  }
}

void run() {
  std::vector<RuleRecord> records = all_rules();
  for (const GivenProfile* given : kGivenProfiles) {
    for (const int microbatches : {12, 24, 96}) record_pipeline(Pipeline(*given, microbatches), records);
  }
  fmt::print(
      "| direction | price | best of all (ties count for each) | mean loss against the best | largest "
      "|\n|---|---|---|---|---|\n");
  for (const RuleRecord& record : records) {
    fmt::print("| {} | {}/16 | {} of {} | {:.3f} % | {:.3f} % |\n",
               record.rule.direction == planner::RoundingRule::Direction::forward ? "forward" : "backward",
               record.rule.price_sixteenths, record.best, record.loss_pct.count(), record.loss_pct.mean(),
               record.loss_pct.max());
  }
}

}  // namespace
}  // namespace lowgear::bench

int main() {
  if (lowgear::bench::require_given_data("rounding_study")) lowgear::bench::run();
  return 0;
}
