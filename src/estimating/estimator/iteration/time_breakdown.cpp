#include "estimating/estimator/iteration/time_breakdown.h"

#include <algorithm>
#include <cstddef>

namespace lowgear::estimator {
namespace {

void add(std::vector<TimePart>& parts, std::string_view name, double time_s) {
  const auto found = std::ranges::find(parts, name, &TimePart::name);
  if (found == parts.end()) {
    parts.push_back({name, time_s});
  } else {
    found->time_s += time_s;
  }
}

double busy_s(const TrainingJob& job, const IterationEstimate& estimate, std::size_t rank) {
  double sum_s = 0;
  for (std::size_t stage = rank; stage < estimate.stages.size(); stage += static_cast<std::size_t>(job.parallel.pp)) {
    sum_s += estimate.stages[stage].forward.time_s() + estimate.stages[stage].backward.time_s();
  }
  return sum_s * static_cast<double>(job.microbatches());
}

}  // namespace

std::vector<TimePart> time_breakdown(const TrainingJob& job, const IterationEstimate& estimate, int rank) {
  const auto first = static_cast<std::size_t>(rank);
  const auto microbatches = static_cast<double>(job.microbatches());
  std::vector<TimePart> parts;
  for (std::size_t stage = first; stage < estimate.stages.size(); stage += static_cast<std::size_t>(job.parallel.pp)) {
    for (const auto* items : {&estimate.stages[stage].forward_items, &estimate.stages[stage].backward_items}) {
      for (const CostItem& item : *items) add(parts, item.name, microbatches * item.cost.time_s());
    }
  }
  add(parts, kWaitingPart, std::max(0.0, estimate.pipeline_s - busy_s(job, estimate, first)));
  add(parts, kGradientsPart, estimate.gradients_s);
  add(parts, kOptimizerPart, estimate.optimizer_s);
  return parts;
}

int busiest_rank(const TrainingJob& job, const IterationEstimate& estimate) {
  int busiest = 0;
  for (int rank = 1; rank < job.parallel.pp; ++rank) {
    if (busy_s(job, estimate, static_cast<std::size_t>(rank)) >
        busy_s(job, estimate, static_cast<std::size_t>(busiest))) {
      busiest = rank;
    }
  }
  return busiest;
}

}  // namespace lowgear::estimator
