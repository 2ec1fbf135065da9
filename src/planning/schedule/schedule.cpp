#include "planning/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "planning/schedule/communication.h"

namespace lowgear::schedule {

namespace {

[[noreturn]] void refuse_action(const Schedule& schedule, int rank, std::size_t step, std::string_view what) {
  const Action& action = schedule.ranks[static_cast<std::size_t>(rank)][step];
  throw InputError(fmt::format("{}: rank {}, step {}: {}: {}", schedule.name, rank, step, to_string(action), what));
}

std::size_t compute_count(const Schedule& schedule) {
  std::size_t count = 0;
  for (const auto& actions : schedule.ranks) {
    count += static_cast<std::size_t>(
        std::count_if(actions.begin(), actions.end(), [](const Action& a) { return a.kind == ActionKind::compute; }));
  }
  return count;
}

/// Ensures that tables by (stage, microbatch) are no larger than the schedule itself, whatever its counts claim.
void check_counts(const Schedule& schedule) {
  if (schedule.stages < 1 || schedule.microbatches < 1 || schedule.ranks.empty()) {
    throw InputError(fmt::format("{}: {} ranks, {} stages, {} microbatches; a schedule needs at least one of each",
                                 schedule.name, schedule.ranks.size(), schedule.stages, schedule.microbatches));
  }
  const std::size_t actions = action_count(schedule);
  if (actions > kMaxActions) {
    throw InputError(fmt::format("{}: {} actions; at most {} are supported", schedule.name, actions, kMaxActions));
  }
  if (schedule.frozen_stages < 0 || schedule.frozen_stages > schedule.stages) {
    throw InputError(
        fmt::format("{}: {} of {} stages cannot be frozen", schedule.name, schedule.frozen_stages, schedule.stages));
  }
  // Forwards of every stage, backwards of those that are trained.
  const std::uint64_t per_microbatch =
      2 * static_cast<std::uint64_t>(schedule.stages) - static_cast<std::uint64_t>(schedule.frozen_stages);
  const std::size_t computations = compute_count(schedule);
  if (computations < per_microbatch * static_cast<std::uint64_t>(schedule.microbatches)) {
    throw InputError(fmt::format(
        "{}: {} computations cannot be a forward and a backward of each of {} microbatches on each of {} stages",
        schedule.name, computations, schedule.microbatches, schedule.stages));
  }
}

void check_action_ranges(const Schedule& schedule) {
  for (int rank = 0; rank < schedule.rank_count(); ++rank) {
    const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
    bool computes = false;
    for (std::size_t step = 0; step < actions.size(); ++step) {
      const Action& action = actions[step];
      computes = computes || action.kind == ActionKind::compute;
      if (action.stage < 0 || action.stage >= schedule.stages) {
        refuse_action(schedule, rank, step, fmt::format("the schedule has stages 0 to {}", schedule.stages - 1));
      }
      if (action.microbatch < 0 || action.microbatch >= schedule.microbatches) {
        refuse_action(schedule, rank, step,
                      fmt::format("the schedule has microbatches 0 to {}", schedule.microbatches - 1));
      }
    }
    if (!computes) throw InputError(fmt::format("{}: rank {} computes nothing; leave it out", schedule.name, rank));
  }
}

constexpr unsigned bit(OpKind kind) { return 1U << static_cast<unsigned>(kind); }

/// Why computations of one (stage, microbatch), one bit a kind, exclude each other; empty where they do not.
std::string_view contradiction(unsigned kinds) {
  constexpr unsigned kSplit = bit(OpKind::input_gradient) | bit(OpKind::weight_gradient);
  if ((kinds & bit(OpKind::backward)) != 0 && (kinds & kSplit) != 0) {
    return "a backward is either whole (B) or split (I and W), not both";
  }
  constexpr unsigned kApart = bit(OpKind::backward) | kSplit | bit(OpKind::recomputation);
  if ((kinds & bit(OpKind::recomputing_backward)) != 0 && (kinds & kApart) != 0) {
    return "a backward that recomputes (C) stands alone, without R, B, I and W";
  }
  return {};
}

/// Which computations each (stage, microbatch) has, one bit a kind. Refuses duplicates and mixed backwards.
std::vector<unsigned char> collect_kinds(const Schedule& schedule) {
  const auto microbatches = static_cast<std::size_t>(schedule.microbatches);
  std::vector<unsigned char> kinds(static_cast<std::size_t>(schedule.stages) * microbatches, 0);
  for (int rank = 0; rank < schedule.rank_count(); ++rank) {
    const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
    for (std::size_t step = 0; step < actions.size(); ++step) {
      const Action& action = actions[step];
      if (action.kind != ActionKind::compute) continue;
      auto& seen =
          kinds[static_cast<std::size_t>(action.stage) * microbatches + static_cast<std::size_t>(action.microbatch)];
      if ((seen & bit(action.op)) != 0) refuse_action(schedule, rank, step, "occurs twice; remove one");
      seen = static_cast<unsigned char>(seen | bit(action.op));
      if (const std::string_view why = contradiction(seen); !why.empty()) refuse_action(schedule, rank, step, why);
    }
  }
  return kinds;
}

void check_complete(const Schedule& schedule, const std::vector<unsigned char>& kinds) {
  const std::vector<int> rank_of = rank_of_stage(schedule);
  const auto refuse_missing = [&](OpKind kind, int stage, int microbatch) {
    const Action missing{ActionKind::compute, kind, stage, microbatch};
    throw InputError(fmt::format("{}: rank {} lacks {}", schedule.name, rank_of[static_cast<std::size_t>(stage)],
                                 to_string(missing)));
  };
  std::size_t index = 0;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (int microbatch = 0; microbatch < schedule.microbatches; ++microbatch, ++index) {
      const unsigned seen = kinds[index];
      if ((seen & bit(OpKind::forward)) == 0) refuse_missing(OpKind::forward, stage, microbatch);
      if (stage < schedule.frozen_stages) {
        if (seen == bit(OpKind::forward)) continue;
        throw InputError(fmt::format("{}: stage {} is frozen and has a backward of microbatch {}; leave it out",
                                     schedule.name, stage, microbatch));
      }
      if ((seen & (bit(OpKind::backward) | bit(OpKind::recomputing_backward))) != 0) continue;
      const bool has_input = (seen & bit(OpKind::input_gradient)) != 0;
      const bool has_weight = (seen & bit(OpKind::weight_gradient)) != 0;
      if (!has_input && !has_weight) refuse_missing(OpKind::backward, stage, microbatch);
      if (!has_input) refuse_missing(OpKind::input_gradient, stage, microbatch);
      if (!has_weight) refuse_missing(OpKind::weight_gradient, stage, microbatch);
    }
  }
}

/// Goes through what a rank executes, and counts what it holds.
class HeldCount {
 public:
  HeldCount(const Schedule& schedule, const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      if (action.kind != ActionKind::compute) continue;
      if (action.op == OpKind::recomputation || action.op == OpKind::recomputing_backward) {
        repeated_.emplace(action.stage, action.microbatch);
      }
    }
    for (const Action& action : actions) {
      if (action.kind == ActionKind::compute && action.stage >= schedule.frozen_stages) pass(action);
    }
  }

  [[nodiscard]] const HeldPeaks& peaks() const { return peaks_; }

 private:
  void pass(const Action& action) {
    switch (action.op) {
      case OpKind::forward:
        ++(repeated_.contains({action.stage, action.microbatch}) ? now_.inputs : now_.activations);
        break;
      case OpKind::recomputation:
      case OpKind::recomputing_backward:
        --now_.inputs;
        ++now_.activations;
        break;
      case OpKind::backward:
      case OpKind::weight_gradient:
        --now_.activations;
        break;
      case OpKind::input_gradient:
      case OpKind::forward_backward:
        break;
    }
    peaks_.activations = std::max(peaks_.activations, now_.activations);
    peaks_.inputs = std::max(peaks_.inputs, now_.inputs);
    if (action.op == OpKind::recomputing_backward) --now_.activations;
  }

  std::set<std::pair<int, int>> repeated_;  ///< (stage, microbatch) whose forward is repeated
  HeldPeaks now_;
  HeldPeaks peaks_;
};

}  // namespace

std::string to_string(const Action& action) {
  switch (action.kind) {
    case ActionKind::compute:
      return fmt::format("{}{}{}", action.stage, letter(action.op), action.microbatch);
    case ActionKind::send_f:
      return fmt::format("{}SEND_F{}", action.stage, action.microbatch);
    case ActionKind::recv_f:
      return fmt::format("{}RECV_F{}", action.stage, action.microbatch);
    case ActionKind::send_b:
      return fmt::format("{}SEND_B{}", action.stage, action.microbatch);
    case ActionKind::recv_b:
      return fmt::format("{}RECV_B{}", action.stage, action.microbatch);
  }
  return {};
}

std::size_t action_count(const Schedule& schedule) {
  std::size_t count = 0;
  for (const auto& actions : schedule.ranks) count += actions.size();
  return count;
}

bool runs(const Schedule& schedule, OpKind kind) {
  return std::ranges::any_of(schedule.ranks, [kind](const auto& actions) {
    return std::ranges::any_of(
        actions, [kind](const Action& action) { return action.kind == ActionKind::compute && action.op == kind; });
  });
}

bool recomputes(const Schedule& schedule) {
  return runs(schedule, OpKind::recomputation) || runs(schedule, OpKind::recomputing_backward);
}

std::vector<int> rank_of_stage(const Schedule& schedule) {
  if (schedule.stages < 1 || static_cast<std::size_t>(schedule.stages) > action_count(schedule)) {
    throw InputError(fmt::format("{}: its actions cannot run {} stages", schedule.name, schedule.stages));
  }
  constexpr int kNowhere = -1;
  std::vector<int> rank_of(static_cast<std::size_t>(schedule.stages), kNowhere);
  for (int rank = 0; rank < schedule.rank_count(); ++rank) {
    const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
    for (std::size_t step = 0; step < actions.size(); ++step) {
      if (actions[step].kind != ActionKind::compute) continue;
      const int stage = actions[step].stage;
      if (stage < 0 || stage >= schedule.stages) {
        refuse_action(schedule, rank, step, fmt::format("the schedule has stages 0 to {}", schedule.stages - 1));
      }
      int& owner = rank_of[static_cast<std::size_t>(stage)];
      if (owner == kNowhere) owner = rank;
      if (owner != rank) {
        refuse_action(schedule, rank, step,
                      fmt::format("stage {} runs on rank {} already; a stage belongs to one rank", stage, owner));
      }
    }
  }
  const auto missing = std::find(rank_of.begin(), rank_of.end(), kNowhere);
  if (missing != rank_of.end()) {
    throw InputError(
        fmt::format("{}: no rank runs stage {} of {}", schedule.name, missing - rank_of.begin(), schedule.stages));
  }
  return rank_of;
}

void validate(const Schedule& schedule) {
  check_counts(schedule);
  check_action_ranges(schedule);
  check_complete(schedule, collect_kinds(schedule));
  validate_communication(schedule);
}

std::vector<HeldPeaks> held_peaks(const Schedule& schedule) {
  std::vector<HeldPeaks> peaks;
  peaks.reserve(schedule.ranks.size());
  for (const auto& actions : schedule.ranks) peaks.push_back(HeldCount(schedule, actions).peaks());
  return peaks;
}

std::vector<int> peak_in_flight_activations(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const HeldPeaks& rank : held_peaks(schedule)) peaks.push_back(rank.activations);
  return peaks;
}

namespace {

/// Whether the action is of a backward pass through a stage before `stages`, or brings it a gradient.
bool vanishes(const Action& action, int stages) {
  switch (action.kind) {
    case ActionKind::compute:
      return action.op != OpKind::forward && action.stage < stages;
    case ActionKind::send_b:
      return peer_stage(action) < stages;
    case ActionKind::recv_b:
      return action.stage < stages;
    case ActionKind::send_f:
    case ActionKind::recv_f:
      return false;
  }
  return false;
}

}  // namespace

Schedule with_frozen_stages(const Schedule& schedule, int stages) {
  if (stages < schedule.frozen_stages || stages > schedule.stages) {
    throw InputError(fmt::format("{}: {} frozen stages cannot be made of {} and {} others", schedule.name, stages,
                                 schedule.frozen_stages, schedule.stages - schedule.frozen_stages));
  }
  Schedule result{schedule.name, schedule.stages, schedule.microbatches, {}, stages};
  for (const std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action>& kept = result.ranks.emplace_back();
    std::copy_if(actions.begin(), actions.end(), std::back_inserter(kept),
                 [stages](const Action& action) { return !vanishes(action, stages); });
  }
  return result;
}

int stages_without_backward(const Schedule& schedule) {
  int first = schedule.stages;
  for (const auto& actions : schedule.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::compute && action.op != OpKind::forward) first = std::min(first, action.stage);
    }
  }
  return first == schedule.stages ? 0 : std::max(first, 0);
}

}  // namespace lowgear::schedule
