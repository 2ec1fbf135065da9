#include "planning/api/profile_fitting.h"

#include <fmt/format.h>

#include <utility>

#include "base/core/error.h"
#include "planning/profile/options.h"

namespace lowgear::api {

namespace {

profile::StageProfile with_stages_of(profile::StageProfile profile, const schedule::Schedule& schedule) {
  if (profile.stages() == schedule.stages) return profile;
  const int ranks = schedule.rank_count();
  if (profile.stages() == ranks) return with_stages_on_ranks(profile, rank_of_stage(schedule));
  const std::string remedy = schedule.stages > ranks
                                 ? fmt::format(" virtual ones on {} ranks; give", ranks)
                                 : fmt::format("; give a schedule of {} stages, or", profile.stages());
  throw InputError(fmt::format("the profile has {} stages and {} has {}{} a profile of {} stages", profile.stages(),
                               schedule.name, schedule.stages, remedy, schedule.stages));
}

/// The kinds that the schedule runs, recomputations made up where `share` says how.
profile::StageProfile with_recomputed_kinds(profile::StageProfile profile, const schedule::Schedule& schedule,
                                            std::optional<double> share) {
  profile = with_recomputation(profile, share);
  for (const std::vector<schedule::Action>& actions : schedule.ranks) {
    for (const schedule::Action& action : actions) {
      if (action.kind != schedule::ActionKind::compute || profile.has(action.stage, action.op)) continue;
      if (action.op != OpKind::recomputation && action.op != OpKind::recomputing_backward) continue;
      throw InputError(
          fmt::format("the schedule {} recomputes, and the profile has no {} for stage {}: measure it, or state "
                      "recomputation_share, its share of the forward's time and energy (about 1)",
                      schedule.name, name(action.op), action.stage));
    }
  }
  return profile;
}

}  // namespace

std::vector<schedule::EnvPipeStage> envpipe_stages(const profile::StageProfile& profile,
                                                   std::span<const double> blocking_power_w,
                                                   std::optional<int> extra_activations) {
  std::vector<schedule::EnvPipeStage> stages;
  for (int stage = 0; stage < profile.stages(); ++stage) {
    const double power_w = blocking_power_w.empty() ? 0 : blocking_power_w[static_cast<std::size_t>(stage)];
    const auto options = pareto_options(profile.measurements(stage, OpKind::forward), power_w);
    stages.push_back({.forward_time_s = options.back().time_s,
                      .backward_time_s = profile.at_max_clock(stage, OpKind::backward).time_s,
                      .extra_activations = extra_activations});
  }
  return stages;
}

profile::StageProfile split_backward(const profile::StageProfile& profile, double share) {
  for (int stage = 0; stage < profile.stages(); ++stage) {
    if (!profile.has(stage, OpKind::input_gradient)) continue;
    throw InputError(fmt::format(
        "backward_split: the profile has input_gradient rows for stage {} already; leave backward_split out", stage));
  }
  return with_split_backward(profile, share);
}

profile::StageProfile fit_profile(profile::StageProfile profile, const schedule::Schedule& schedule,
                                  const FittingShares& shares) {
  profile = with_stages_of(std::move(profile), schedule);
  if (forward_only_stages(profile) > schedule.frozen_stages) {
    throw InputError(
        fmt::format("the schedule {0} has backwards of stage {1}, and the profile has only its forwards: "
                    "measure them, or leave them out of the schedule, as plan --change --freeze does",
                    schedule.name, schedule.frozen_stages));
  }
  if (recomputes(schedule)) profile = with_recomputed_kinds(std::move(profile), schedule, shares.recomputation);
  if (!runs(schedule, OpKind::input_gradient)) return profile;
  if (shares.backward_split) return split_backward(profile, *shares.backward_split);
  for (int stage = schedule.frozen_stages; stage < profile.stages(); ++stage) {
    if (profile.has(stage, OpKind::input_gradient)) continue;
    throw InputError(
        fmt::format("the schedule {} splits backwards, and the profile has no input_gradient and weight_gradient for "
                    "stage {}: measure them, or give the input gradient's share, such as 0.5, as --backward-split",
                    schedule.name, stage));
  }
  return profile;
}

std::optional<std::string> divided_stages_note(int profiled_stages, const schedule::Schedule& schedule) {
  if (profiled_stages == schedule.stages) return std::nullopt;
  const std::vector<int> rank_of = rank_of_stage(schedule);
  return fmt::format(
      "{} has {} stages and the profile {}: those of a rank are assumed to be equal parts{}; profile these {} stages "
      "before relying on the figures",
      schedule.name, schedule.stages, profiled_stages,
      rank_of.back() == schedule.rank_count() - 1
          ? ""
          : fmt::format(", with an output head on rank {}, although it runs on rank {}", schedule.rank_count() - 1,
                        rank_of.back()),
      schedule.stages);
}

namespace {

/// Peak memory of `lowgear plan` over its computations, rounded up: measured were 4.1 KB with 64 stages and 512
/// microbatches (sandwich) and 6.9 KB with 8 and 8192 (exact).
constexpr double kBytesPerComputation = 8192;
constexpr double kGib = 1024.0 * 1024 * 1024;

double computations_of(int ranks, int microbatches, int chunks) {
  constexpr double kComputationsEach = 2;
  return static_cast<double>(ranks) * microbatches * chunks * kComputationsEach;
}

}  // namespace

double planning_memory_bytes(int ranks, int microbatches, int chunks) {
  return computations_of(ranks, microbatches, chunks) * kBytesPerComputation;
}

void require_planning_memory(int ranks, int microbatches, int chunks, std::optional<std::uint64_t> available_bytes) {
  const double needed = planning_memory_bytes(ranks, microbatches, chunks);
  if (!available_bytes || needed <= static_cast<double>(*available_bytes)) return;
  throw InputError(fmt::format(
      "{} stages x {} microbatches are {:.3g} computations, which take about {:.3g} GiB to plan, and {:.3g} "
      "GiB are available: plan fewer stages or microbatches",
      static_cast<double>(ranks) * chunks, microbatches, computations_of(ranks, microbatches, chunks), needed / kGib,
      static_cast<double>(*available_bytes) / kGib));
}

}  // namespace lowgear::api
