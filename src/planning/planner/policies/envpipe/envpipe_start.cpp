#include "planning/planner/policies/envpipe/envpipe_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/core/error.h"
#include "planning/planner/planners/at.h"
#include "planning/planner/policies/envpipe/envelope.h"

namespace lowgear::planner {
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
  if (wanted != order.early_forwards) {
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
    highest_mhz[op] = optimal_mhz[at(dag.ops[op].rank)];
  }
  return highest_mhz;
}

std::vector<schedule::EnvPipeStage> stages_without_profile(int ranks) {
  return std::vector<schedule::EnvPipeStage>(static_cast<std::size_t>(ranks),
                                             {.forward_time_s = 1, .backward_time_s = 2, .extra_activations = {}});
}

}  // namespace lowgear::planner
