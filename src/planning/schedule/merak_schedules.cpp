#include "planning/schedule/merak_schedules.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "planning/schedule/generators.h"

namespace lowgear::schedule {
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
