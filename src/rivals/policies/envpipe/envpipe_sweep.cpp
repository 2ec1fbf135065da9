#include "rivals/policies/envpipe/envpipe_sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "base/core/error.h"
#include "planning/planner/planners/planning_model.h"

namespace lowgear::policies {

namespace {

/// `fit` by rank, one for all, or none: whatever memory holds.
std::vector<int> early_forwards(int microbatches, std::vector<schedule::EnvPipeStage> stages,
                                std::span<const int> fit) {
  for (std::size_t rank = 0; rank < stages.size() && !fit.empty(); ++rank) {
    stages[rank].extra_activations = fit[fit.size() == 1 ? 0 : rank];
  }
  return envpipe_extra_forwards(microbatches, stages);
}

}  // namespace

std::vector<int> envpipe_profiled_clocks_mhz(std::span<const int> clocks_mhz, int step_mhz) {
  std::vector<int> profiled;
  for (const int clock : clocks_mhz) {
    if (profiled.empty() || clock <= profiled.back() - step_mhz) profiled.push_back(clock);
  }
  return profiled;
}

EnvPipeOrder envpipe_order(int microbatches, const EnvPipeFindings& findings,
                           const std::vector<int>& extra_activations) {
  const std::vector<int> fit = extra_activations.empty() ? std::vector<int>{0} : extra_activations;
  if (fit.size() > 1 && fit.size() != findings.stages.size()) {
    throw InputError(
        fmt::format("envpipe: extra activations of {} stages are given for {}; give one number, or one "
                    "for each stage",
                    fit.size(), findings.stages.size()));
  }
  const std::vector<int> wanted = early_forwards(microbatches, findings.stages, {});
  EnvPipeOrder order{.early_forwards = early_forwards(microbatches, findings.stages, fit), .note = {}};
  if (wanted == order.early_forwards) return order;
  if (std::ranges::all_of(order.early_forwards, [](int forwards) { return forwards == 0; })) {
    order.note = fmt::format("memory admits none of the early forwards that its rule asks for ({} by stage)",
                             fmt::join(wanted, " "));
  } else {
    order.note = fmt::format("memory admits {} early forwards by stage, its rule asks for {}",
                             fmt::join(order.early_forwards, " "), fmt::join(wanted, " "));
  }
  return order;
}

void require_envpipe_order(const schedule::PipelineDag& dag) {
  const bool as_needed = std::ranges::all_of(dag.ops, [](const schedule::ComputeOp& op) {
    return op.stage == op.rank && (op.kind == OpKind::forward || op.kind == OpKind::backward);
  });
  if (as_needed) return;
  throw InputError(
      "envpipe: its own order has one stage per rank and whole backwards; plan for such a schedule (1f1b, gpipe), or "
      "keep the given order");
}

std::vector<int> envpipe_start_clocks_mhz(const schedule::PipelineDag& dag, EnvPipeOptions::Type type,
                                          std::vector<int> highest_mhz, std::span<const int> optimal_mhz) {
  if (type == EnvPipeOptions::Type::baseline) return highest_mhz;
  const std::vector<bool> envelope = outer_envelope(dag);
  for (std::size_t op = 0; op < highest_mhz.size(); ++op) {
    if (type == EnvPipeOptions::Type::envelope && envelope[op]) continue;
    highest_mhz[op] = optimal_mhz[planner::at(dag.ops[op].rank)];
  }
  return highest_mhz;
}

std::vector<schedule::EnvPipeStage> stages_without_profile(int ranks) {
  return std::vector<schedule::EnvPipeStage>(static_cast<std::size_t>(ranks),
                                             {.forward_time_s = 1, .backward_time_s = 2, .extra_activations = {}});
}

std::vector<bool> outer_envelope(const schedule::PipelineDag& dag) {
  std::vector<bool> envelope;
  envelope.reserve(dag.ops.size());
  for (const schedule::ComputeOp& op : dag.ops) {
    const bool first_forward = op.kind == OpKind::forward && op.microbatch == 0;
    const bool last_backward = op.kind != OpKind::forward && op.microbatch == dag.microbatches - 1;
    envelope.push_back(op.stage == dag.stages - 1 || first_forward || last_backward);
  }
  return envelope;
}

namespace {

double mean_of(std::span<const double> samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double mean_of(std::span<const EnvPipeSample> samples, double EnvPipeSample::*member) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const EnvPipeSample& sample : samples) values.push_back(sample.*member);
  return envpipe_mean(values);
}

}  // namespace

double envpipe_mean(std::span<const double> samples) {
  constexpr std::size_t kTooFewToTrim = 3;
  const double mean = mean_of(samples);
  if (samples.size() <= kTooFewToTrim) return mean;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(samples.size()));
  std::vector<double> near;
  for (const double sample : samples) {
    if (std::abs(sample - mean) < deviation) near.push_back(sample);
  }
  return near.empty() ? mean : mean_of(near);
}

EnvPipeSweep::EnvPipeSweep(std::vector<int> clocks_mhz, int ranks, EnvPipeOptions::Type type)
    : clocks_mhz_(std::move(clocks_mhz)), type_(type) {
  samples_.assign(static_cast<std::size_t>(ranks), std::vector<std::vector<EnvPipeSample>>(clocks_mhz_.size()));
}

std::vector<int> EnvPipeSweep::rank_clocks_mhz() const {
  std::vector<int> clocks(samples_.size(), clocks_mhz_[clock_]);
  if (type_ != EnvPipeOptions::Type::uniform) clocks.back() = clocks_mhz_.front();
  return clocks;
}

int EnvPipeSweep::steps_left() const {
  const int done = is_finished() ? 0 : static_cast<int>(samples_.front()[clock_].size());
  return kEnvPipeStepsPerClock * static_cast<int>(clocks_mhz_.size() - clock_) - done;
}

std::string EnvPipeSweep::observe(std::span<const EnvPipeSample> samples) {
  for (std::size_t rank = 0; rank < samples.size(); ++rank) {
    const EnvPipeSample& sample = samples[rank];
    if (!std::isfinite(sample.energy_j)) return fmt::format("no energy was measured of rank {}", rank);
    if (!std::isfinite(sample.forward_time_s + sample.backward_time_s)) {
      return fmt::format("no times of units were measured of rank {}", rank);
    }
  }
  for (std::size_t rank = 0; rank < samples.size(); ++rank) samples_[rank][clock_].push_back(samples[rank]);
  if (samples_.front()[clock_].size() == std::size_t{kEnvPipeStepsPerClock}) ++clock_;
  return "";
}

EnvPipeFindings EnvPipeSweep::findings() const {
  EnvPipeFindings found;
  for (std::size_t rank = 0; rank < samples_.size(); ++rank) {
    const bool fixed = type_ != EnvPipeOptions::Type::uniform && rank + 1 == samples_.size();
    std::size_t best = 0;
    double least_j = std::numeric_limits<double>::infinity();
    for (std::size_t clock = 0; clock < clocks_mhz_.size() && !fixed; ++clock) {
      const double energy_j = mean_of(samples_[rank][clock], &EnvPipeSample::energy_j);
      if (energy_j >= least_j) continue;
      least_j = energy_j;
      best = clock;
    }
    found.optimal_mhz.push_back(clocks_mhz_[best]);
    found.stages.push_back({.forward_time_s = mean_of(samples_[rank][best], &EnvPipeSample::forward_time_s),
                            .backward_time_s = mean_of(samples_[rank][0], &EnvPipeSample::backward_time_s),
                            .extra_activations = {}});
  }
  return found;
}

}  // namespace lowgear::policies
