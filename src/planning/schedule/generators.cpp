#include "planning/schedule/generators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "planning/schedule/dag.h"

namespace lowgear::schedule {

namespace {

Action compute(OpKind kind, int stage, int microbatch) { return {ActionKind::compute, kind, stage, microbatch}; }

void check_size(std::string_view name, int ranks, int microbatches, int chunks, int kinds) {
  if (ranks < 1 || microbatches < 1 || chunks < 1) {
    throw InputError(
        fmt::format("{}: {} ranks, {} microbatches, {} virtual stages per rank; a schedule needs at least 1 of each",
                    name, ranks, microbatches, chunks));
  }
  const double actions = static_cast<double>(ranks) * microbatches * chunks * kinds;
  if (actions <= static_cast<double>(kMaxActions)) return;
  constexpr double kBytesEach = sizeof(Action) + sizeof(ComputeOp) + 2 * sizeof(DagEdge) + sizeof(int);
  throw InputError(fmt::format(
      "{}: {} ranks x {} microbatches x {} virtual stages are {:.3g} computations, which would take about {:.0f} GiB "
      "with their graph; at most {} are supported: lower one of them",
      name, ranks, microbatches, chunks, actions, actions * kBytesEach / (1 << 30), kMaxActions));
}

/// `warmup` forwards, then a backward and a forward in turn.
std::vector<Action> alternate(int stage, int warmup, int microbatches) {
  std::vector<Action> actions;
  actions.reserve(2 * static_cast<std::size_t>(microbatches));
  int forward = 0;
  while (forward < std::min(warmup, microbatches)) actions.push_back(compute(OpKind::forward, stage, forward++));
  for (int backward = 0; backward < microbatches; ++backward) {
    actions.push_back(compute(OpKind::backward, stage, backward));
    if (forward < microbatches) actions.push_back(compute(OpKind::forward, stage, forward++));
  }
  return actions;
}

/// Which microbatch of which chunk the k-th forward (or, with chunks counted from the last, backward) of a rank is:
/// rounds of `per_round` microbatches, each going through all chunks.
struct InterleavedPosition {
  int chunk = 0;
  int microbatch = 0;
};

InterleavedPosition interleaved_position(int k, int chunks, int per_round) {
  const int round = k / (per_round * chunks);
  const int within = k % (per_round * chunks);
  return {within / per_round, round * per_round + within % per_round};
}

std::vector<Action> interleaved_rank(int rank, int ranks, int microbatches, int chunks, int per_round) {
  const int total = chunks * microbatches;
  const int warmup = static_cast<int>(
      std::min<long long>(total, static_cast<long long>(chunks - 1) * per_round + 2LL * (ranks - 1 - rank)));
  std::vector<Action> actions;
  actions.reserve(2 * static_cast<std::size_t>(total));
  const auto forward = [&](int k) {
    const auto [chunk, microbatch] = interleaved_position(k, chunks, per_round);
    actions.push_back(compute(OpKind::forward, chunk * ranks + rank, microbatch));
  };
  const auto backward = [&](int k) {
    const auto [chunk, microbatch] = interleaved_position(k, chunks, per_round);
    actions.push_back(compute(OpKind::backward, (chunks - 1 - chunk) * ranks + rank, microbatch));
  };
  for (int k = 0; k < warmup; ++k) forward(k);
  for (int k = 0; k < total; ++k) {
    if (warmup + k < total) forward(warmup + k);
    backward(k);
  }
  return actions;
}

/// `warmup` forwards, then an input gradient and a forward in turn. Weight gradients are put off until `most`
/// activations are held, and fill the bubble at the end.
std::vector<Action> zero_bubble_rank(int rank, int warmup, int most, int microbatches) {
  std::vector<Action> actions;
  actions.reserve(3 * static_cast<std::size_t>(microbatches));
  int forward = 0;
  int weight = 0;
  while (forward < std::min(warmup, microbatches)) actions.push_back(compute(OpKind::forward, rank, forward++));
  for (int input = 0; input < microbatches; ++input) {
    actions.push_back(compute(OpKind::input_gradient, rank, input));
    const bool memory_full = forward - weight == most;
    if (forward == microbatches || memory_full) actions.push_back(compute(OpKind::weight_gradient, rank, weight++));
    if (forward < microbatches) actions.push_back(compute(OpKind::forward, rank, forward++));
  }
  while (weight < microbatches) actions.push_back(compute(OpKind::weight_gradient, rank, weight++));
  return actions;
}

/// A rank of ZB-V while it is built: chunk 0 is stage `rank`, chunk 1 stage 2S - 1 - rank. Microbatches beyond those of
/// the iteration are left out, which shortens the order where there are fewer than 2S - 1.
class ZbVRank {
 public:
  ZbVRank(int rank, int ranks, int microbatches)
      : rank_(rank), ranks_(ranks), microbatches_(microbatches), stage_{rank, 2 * ranks - 1 - rank} {
    actions_.reserve(6 * static_cast<std::size_t>(microbatches));
  }

  std::vector<Action> make() {
    const int counted = std::max(microbatches_, 2 * ranks_ - 1);
    for (int i = 0; i < 2 * (ranks_ - rank_) - 1; ++i) forward(0);
    for (int i = 0; i < rank_; ++i) {
      forward(1);
      forward(0);
    }
    for (int i = 0; i < ranks_ - rank_; ++i) {
      forward(1);
      input_gradient(1);
      weight_gradient(1);
    }
    while (next_[1].forward < next_[0].forward || next_[0].forward < counted) {
      if (next_[0].forward < counted) forward(0);
      input_gradient(0);
      weight_gradient(0);
      forward(1);
      input_gradient(1);
      weight_gradient(1);
    }
    for (int i = 0; i < rank_; ++i) {
      input_gradient(0);
      input_gradient(1);
    }
    for (int i = 0; i < ranks_ - rank_; ++i) {
      input_gradient(0);
      weight_gradient(0);
    }
    while (next_[1].weight < next_[1].input) weight_gradient(1);
    while (next_[0].weight < next_[0].input) weight_gradient(0);
    return std::move(actions_);
  }

 private:
  struct Next {
    int forward = 0;
    int input = 0;
    int weight = 0;
  };

  void add(OpKind kind, std::size_t chunk, int microbatch) {
    if (microbatch < microbatches_) actions_.push_back(compute(kind, stage_[chunk], microbatch));
  }
  void forward(std::size_t chunk) { add(OpKind::forward, chunk, next_[chunk].forward++); }
  void input_gradient(std::size_t chunk) { add(OpKind::input_gradient, chunk, next_[chunk].input++); }
  void weight_gradient(std::size_t chunk) { add(OpKind::weight_gradient, chunk, next_[chunk].weight++); }

  int rank_;
  int ranks_;
  int microbatches_;
  std::array<int, 2> stage_;
  std::array<Next, 2> next_ = {};
  std::vector<Action> actions_;
};

Schedule from_request_envpipe(const ScheduleRequest& request) {
  check_size("envpipe", request.ranks, request.microbatches, 1, 2);
  if (request.envpipe_stages.size() != static_cast<std::size_t>(request.ranks)) {
    throw InputError(fmt::format("envpipe: times of {} stages given for {} ranks; its schedule depends on them",
                                 request.envpipe_stages.size(), request.ranks));
  }
  return envpipe_schedule(request.microbatches, envpipe_extra_forwards(request.microbatches, request.envpipe_stages));
}

constexpr std::array kGenerators{
    ScheduleGenerator{"1f1b", "one forward, one backward in turn (PipeDream-Flush)", 1, 1,
                      [](const ScheduleRequest& r) { return one_f_one_b_schedule(r.ranks, r.microbatches); }},
    ScheduleGenerator{"gpipe", "all forwards, then all backwards", 1, 1,
                      [](const ScheduleRequest& r) { return gpipe_schedule(r.ranks, r.microbatches); }},
    ScheduleGenerator{"interleaved", "1F1B with several virtual stages per rank (Megatron)", 2, INT_MAX,
                      [](const ScheduleRequest& r) { return interleaved_schedule(r.ranks, r.microbatches, r.chunks); }},
    ScheduleGenerator{"zb-h1", "1F1B with the backward split, at 1F1B's memory (zero bubble H1)", 1, 1,
                      [](const ScheduleRequest& r) { return zb_h1_schedule(r.ranks, r.microbatches); }},
    ScheduleGenerator{"zb-h2", "no bubble but at the ends of the first rank, at twice 1F1B's memory (zero bubble H2)",
                      1, 1, [](const ScheduleRequest& r) { return zb_h2_schedule(r.ranks, r.microbatches); }},
    ScheduleGenerator{"zb-v", "two stages per rank in a V, backwards split, at 1F1B's memory (ZB-V)", 1, 2,
                      [](const ScheduleRequest& r) { return zb_v_schedule(r.ranks, r.microbatches); }},
    ScheduleGenerator{"envpipe", "1F1B with as many early forwards as fit into the wait for the first gradient", 1, 1,
                      from_request_envpipe},
    ScheduleGenerator{"merak-1f1b", "1F1B whose backwards recompute (Merak: 1f1b, ds_default)", 1, 1,
                      [](const ScheduleRequest& r) { return merak_1f1b_schedule(r.ranks, r.microbatches); }, true},
    ScheduleGenerator{"merak-early-recompute",
                      "the same, but the last backwards recompute while they wait (Merak: early_recompute_1f1b)", 1, 1,
                      [](const ScheduleRequest& r) { return merak_early_recompute_schedule(r.ranks, r.microbatches); },
                      true},
    ScheduleGenerator{
        "merak-last-no-recompute", "the same, and the last rank keeps all activations (Merak: last_no_recompute_1f1b)",
        1, 1, [](const ScheduleRequest& r) { return merak_last_no_recompute_schedule(r.ranks, r.microbatches); }, true},
    ScheduleGenerator{
        "merak-full-critical-path",
        "the same, with a forward before the first backward of the last rank but one (Merak: shifted_critical_path)", 1,
        1, [](const ScheduleRequest& r) { return merak_full_critical_path_schedule(r.ranks, r.microbatches); }, true},
};

}  // namespace

Schedule gpipe_schedule(int ranks, int microbatches) {
  check_size("gpipe", ranks, microbatches, 1, 2);
  Schedule schedule{"gpipe", ranks, microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) schedule.ranks.push_back(alternate(rank, microbatches, microbatches));
  return schedule;
}

Schedule one_f_one_b_schedule(int ranks, int microbatches) {
  check_size("1f1b", ranks, microbatches, 1, 2);
  Schedule schedule{"1f1b", ranks, microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) schedule.ranks.push_back(alternate(rank, ranks - rank, microbatches));
  return schedule;
}

Schedule interleaved_schedule(int ranks, int microbatches, int chunks) {
  check_size("interleaved", ranks, microbatches, chunks, 2);
  if (chunks == 1) {
    Schedule schedule = one_f_one_b_schedule(ranks, microbatches);
    schedule.name = "interleaved";
    return schedule;
  }
  const int rounds = std::max(1, microbatches / ranks);
  if (microbatches % rounds != 0) {
    const int below = microbatches - microbatches % rounds;
    throw InputError(
        fmt::format("interleaved: {} microbatches on {} ranks do not divide into {} equal rounds; use {} "
                    "or {} microbatches",
                    microbatches, ranks, rounds, below, microbatches - microbatches % ranks + ranks));
  }
  Schedule schedule{"interleaved", ranks * chunks, microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.ranks.push_back(interleaved_rank(rank, ranks, microbatches, chunks, microbatches / rounds));
  }
  return schedule;
}

Schedule with_split_backwards(Schedule order) {
  for (std::vector<Action>& actions : order.ranks) {
    std::vector<Action> split;
    for (const Action& action : actions) {
      split.push_back(action);
      if (action.kind != ActionKind::compute || action.op != OpKind::backward) continue;
      split.back().op = OpKind::input_gradient;
      split.push_back(action);
      split.back().op = OpKind::weight_gradient;
    }
    actions = std::move(split);
  }
  return order;
}

Schedule zb_h1_schedule(int ranks, int microbatches) {
  check_size("zb-h1", ranks, microbatches, 1, 3);
  Schedule schedule{"zb-h1", ranks, microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.ranks.push_back(zero_bubble_rank(rank, ranks - rank, ranks, microbatches));
  }
  return schedule;
}

Schedule zb_h2_schedule(int ranks, int microbatches) {
  check_size("zb-h2", ranks, microbatches, 1, 3);
  Schedule schedule{"zb-h2", ranks, microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.ranks.push_back(zero_bubble_rank(rank, 2 * (ranks - rank) - 1, 2 * ranks - 1, microbatches));
  }
  return schedule;
}

Schedule zb_v_schedule(int ranks, int microbatches) {
  check_size("zb-v", ranks, microbatches, 2, 3);
  Schedule schedule{"zb-v", 2 * ranks, microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) schedule.ranks.push_back(ZbVRank(rank, ranks, microbatches).make());
  return schedule;
}

Schedule envpipe_schedule(int microbatches, std::span<const int> extra_forwards) {
  const int ranks = static_cast<int>(std::min<std::size_t>(extra_forwards.size(), kMaxActions + 1));
  check_size("envpipe", ranks, microbatches, 1, 2);
  Schedule schedule{"envpipe", ranks, microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    const int extra = extra_forwards[static_cast<std::size_t>(rank)];
    if (extra < 0) throw InputError(fmt::format("envpipe: rank {}: {} extra forwards; use 0 or more", rank, extra));
    const long long warmup = static_cast<long long>(ranks) - rank + extra;
    schedule.ranks.push_back(
        alternate(rank, static_cast<int>(std::min<long long>(warmup, microbatches)), microbatches));
  }
  return schedule;
}

std::vector<int> envpipe_extra_forwards(int microbatches, std::span<const EnvPipeStage> stages) {
  const int ranks = static_cast<int>(std::min<std::size_t>(stages.size(), kMaxActions + 1));
  check_size("envpipe", ranks, microbatches, 1, 2);
  std::vector<int> counts;
  counts.reserve(stages.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const EnvPipeStage& stage = stages[static_cast<std::size_t>(rank)];
    const bool usable = std::isfinite(stage.forward_time_s) && stage.forward_time_s > 0 &&
                        std::isfinite(stage.backward_time_s) && stage.backward_time_s > 0;
    if (!usable) {
      throw InputError(fmt::format("envpipe: stage {}: forward {} s, backward {} s; times must be positive", rank,
                                   stage.forward_time_s, stage.backward_time_s));
    }
    const double fitting = std::floor(stage.backward_time_s * (ranks - rank - 1) / stage.forward_time_s);
    int count = static_cast<int>(std::min<double>(fitting, microbatches));
    count = std::min(count, microbatches - (ranks - rank));
    if (stage.extra_activations) count = std::min(count, *stage.extra_activations);
    if (rank > 0) count = std::min(count, counts.back());
    counts.push_back(std::max(count, 0));
  }
  return counts;
}

std::span<const ScheduleGenerator> schedule_generators() { return kGenerators; }

Schedule make_schedule(const ScheduleRequest& request) {
  const auto generators = schedule_generators();
  const auto found = std::find_if(generators.begin(), generators.end(),
                                  [&](const ScheduleGenerator& g) { return g.name == request.name; });
  if (found == generators.end()) {
    std::string names;
    for (const auto& generator : generators) names.append(names.empty() ? "" : ", ").append(generator.name);
    throw InputError(fmt::format("no schedule is called {}; there are {}", quote(request.name), names));
  }
  if (!found->runs_chunks(request.chunks) && request.chunks == 1) {
    throw InputError(
        fmt::format("{}: with 1 virtual stage per rank it is 1f1b; give {} virtual stages or more, or name 1f1b",
                    found->name, found->fewest_chunks));
  }
  if (!found->runs_chunks(request.chunks) && request.chunks > 1) {
    throw InputError(fmt::format("{}: {} virtual stages per rank; it runs {}", found->name, request.chunks,
                                 found->most_chunks == 1 ? "one" : "two"));
  }
  return found->generate(request);
}

namespace {

/// How a backward gets its activations.
enum class Repeats : unsigned char { never, inside, early };

/// The order with its backwards as `repeats` (of a rank and a microbatch) says.
template <typename Choice>
Schedule with_recomputation(Schedule order, std::string name, const Choice& repeats) {
  order.name = std::move(name);
  for (int rank = 0; rank < order.rank_count(); ++rank) {
    std::vector<Action>& actions = order.ranks[static_cast<std::size_t>(rank)];
    std::vector<Action> result;
    result.reserve(actions.size() + actions.size() / 2);
    for (Action action : actions) {
      if (action.op == OpKind::backward) {
        const Repeats how = repeats(rank, action.microbatch);
        if (how == Repeats::early) {
          result.push_back({ActionKind::compute, OpKind::recomputation, action.stage, action.microbatch});
        }
        if (how == Repeats::inside) action.op = OpKind::recomputing_backward;
      }
      result.push_back(action);
    }
    actions = std::move(result);
  }
  return order;
}

/// Whether no forward of the rank is left when 1F1B comes to the backward.
bool is_after_last_forward(int rank, int ranks, int microbatch, int microbatches) {
  return microbatch - rank > microbatches - ranks;
}

}  // namespace

Schedule merak_1f1b_schedule(int ranks, int microbatches) {
  return with_recomputation(one_f_one_b_schedule(ranks, microbatches), "merak-1f1b",
                            [](int, int) { return Repeats::inside; });
}

Schedule merak_early_recompute_schedule(int ranks, int microbatches) {
  return with_recomputation(one_f_one_b_schedule(ranks, microbatches), "merak-early-recompute",
                            [=](int rank, int microbatch) {
                              const bool waits = is_after_last_forward(rank, ranks, microbatch, microbatches);
                              return waits ? Repeats::early : Repeats::inside;
                            });
}

Schedule merak_last_no_recompute_schedule(int ranks, int microbatches) {
  return with_recomputation(
      one_f_one_b_schedule(ranks, microbatches), "merak-last-no-recompute", [=](int rank, int microbatch) {
        if (rank == ranks - 1) return Repeats::never;
        const bool early = rank == ranks - 2 ? microbatch == 0 && microbatches > 1
                                             : is_after_last_forward(rank, ranks, microbatch, microbatches);
        return early ? Repeats::early : Repeats::inside;
      });
}

Schedule merak_full_critical_path_schedule(int ranks, int microbatches) {
  Schedule order = one_f_one_b_schedule(ranks, microbatches);
  constexpr int kFewestMicrobatches = 3;
  if (microbatches < kFewestMicrobatches) {
    throw InputError(
        fmt::format("merak-full-critical-path: {} microbatches; it runs the third forward early, so give at least {}",
                    microbatches, kFewestMicrobatches));
  }
  if (ranks > 1) {
    std::vector<Action>& actions = order.ranks[static_cast<std::size_t>(ranks - 2)];
    std::swap(actions[2], actions[3]);  // the first backward and the third forward
  }
  return with_recomputation(std::move(order), "merak-full-critical-path", [=](int rank, int microbatch) {
    if (rank == ranks - 1) return Repeats::never;
    bool early = is_after_last_forward(rank, ranks, microbatch, microbatches);
    if (rank == ranks - 2) early = microbatch < 2;
    if (rank == ranks - 3) early = early || microbatch == 0;
    return early ? Repeats::early : Repeats::inside;
  });
}

}  // namespace lowgear::schedule
