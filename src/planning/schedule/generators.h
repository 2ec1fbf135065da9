#pragma once

/// Schedules by construction. All return computations only (`with_communication` adds the messages), and all throw
/// InputError when ranks, microbatches or chunks are below 1, when the schedule would exceed kMaxActions (the message
/// says what it would take in memory), and where stated.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/schedule/schedule.h"

namespace lowgear::schedule {

/// GPipe (Huang et al. 2019): all forwards, then all backwards, oldest first as PyTorch and DeepSpeed run them. Every
/// rank holds all M microbatches' activations.
[[nodiscard]] Schedule gpipe_schedule(int ranks, int microbatches);

/// 1F1B (PipeDream-Flush, Narayanan et al. 2021): rank s runs S - s forwards, then a backward and a forward in turn.
/// It holds min(S - s, M) activations.
[[nodiscard]] Schedule one_f_one_b_schedule(int ranks, int microbatches);

/// Interleaved 1F1B (Narayanan et al. 2021): rank r runs the `chunks` virtual stages r, r + S, r + 2S, ... in rounds of
/// microbatches. As in PyTorch there are max(1, M / S) rounds of equal size: M below S, or a multiple of the number of
/// rounds; anything else is refused with the nearest counts that work. With M a multiple of S this is Megatron's
/// schedule: (S - r - 1) * 2 + (chunks - 1) * S forwards before the first pair. One chunk is 1F1B.
[[nodiscard]] Schedule interleaved_schedule(int ranks, int microbatches, int chunks);

/// The order with each whole backward as its input gradient, followed by its weight gradient.
[[nodiscard]] Schedule with_split_backwards(Schedule order);

/// ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): 1F1B with the backward split; weight gradients are put
/// off until the memory of 1F1B's first rank is full, and fill the bubble at the end. Every rank holds at most
/// min(S, M) activations.
[[nodiscard]] Schedule zb_h1_schedule(int ranks, int microbatches);

/// ZB-H2 (the same paper): 2(S - s) - 1 forwards before the first input gradient, so that the last rank's forwards come
/// without a gap. Every rank holds at most min(2S - 1, M) activations.
[[nodiscard]] Schedule zb_h2_schedule(int ranks, int microbatches);

/// ZB-V (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", as PyTorch's ScheduleZBVZeroBubble has it):
/// rank r runs the stages r and 2S - 1 - r, and no rank waits between its first and its last op where forwards, input
/// and weight gradients take the same time. Every rank holds at most 2S stage-microbatches, as much as 1F1B's first.
[[nodiscard]] Schedule zb_v_schedule(int ranks, int microbatches);

/// EnvPipe's schedule (Choi et al., USENIX ATC 2023): rank s runs min(M, S - s + extra_forwards[s]) forwards before its
/// first backward, then a backward and a forward in turn; that is also how many activations it holds.
/// `extra_forwards` (EnvPipe's `cnt`) by rank, each >= 0, is taken as it is: where it rises by 2 or more from one rank
/// to the next the dependencies can cycle, and where it rises at all EnvPipe's own order of messages can hang.
[[nodiscard]] Schedule envpipe_schedule(int microbatches, std::span<const int> extra_forwards);

/// The figures of a stage that EnvPipe's rule takes.
struct EnvPipeStage {
  double forward_time_s = 0;   ///< at the clock that is planned for it
  double backward_time_s = 0;  ///< at the highest clock
  /// Activations that fit into memory beyond those of 1F1B; none means no limit.
  std::optional<int> extra_activations;
};

/// EnvPipe's `cnt`: as many slow forwards as fit into the wait for the first gradient,
/// floor(backward_time * (S - s - 1) / forward_time), at most what memory holds and at most M - (S - s), then lowered
/// so that no rank has more than the one before it. (EnvPipe makes an exception where that count has reached M - (S -
/// s); it is what hangs, so it is not made here.) Throws InputError unless times are positive and finite.
[[nodiscard]] std::vector<int> envpipe_extra_forwards(int microbatches, std::span<const EnvPipeStage> stages);

/// Everything that some schedule needs; each reads what concerns it.
struct ScheduleRequest {
  std::string name;
  int ranks = 1;
  int microbatches = 1;
  int chunks = 1;                            ///< virtual stages per rank (interleaved; zb-v has two)
  std::vector<EnvPipeStage> envpipe_stages;  ///< by rank (envpipe)
};

/// A schedule as users choose it.
struct ScheduleGenerator {
  std::string_view name;
  std::string_view summary;  ///< one line for help texts
  int fewest_chunks = 1;     ///< virtual stages per rank
  int most_chunks = 1;
  Schedule (*generate)(const ScheduleRequest& request);
  bool recomputes = false;  ///< has recomputations, or backwards that recompute

  [[nodiscard]] bool runs_chunks(int chunks) const { return chunks >= fewest_chunks && chunks <= most_chunks; }
};

/// All schedules, in the order in which help texts show them.
[[nodiscard]] std::span<const ScheduleGenerator> schedule_generators();

/// The named schedule. Throws InputError naming the schedules that exist, and when the request gives it a number of
/// chunks that it does not run.
[[nodiscard]] Schedule make_schedule(const ScheduleRequest& request);

// Merak's training schedules (Lai et al. 2022, "Merak: An Efficient Distributed DNN Training Framework with Automated
// 3D Parallelism for Giant Foundation Models"; `runtime/schedule.py` of its repository) run with activation
// checkpointing: a forward keeps its input, and is repeated before its backward. Where Merak repeats it inside the
// backward, once the gradient is there, the schedule has a recomputing backward; where Merak repeats it first and then
// receives the gradient, a recomputation and a backward. All are 1F1B except for the differences stated below.

/// `1f1b` and `ds_default`: every backward recomputes.
[[nodiscard]] Schedule merak_1f1b_schedule(int ranks, int microbatches);

/// `early_recompute_1f1b`: the backwards after a rank's last forward are repeated while their gradients are waited for.
[[nodiscard]] Schedule merak_early_recompute_schedule(int ranks, int microbatches);

/// `last_no_recompute_1f1b`: as before, and the last rank keeps all activations. The one before it recomputes early for
/// its first backward instead of its last one.
[[nodiscard]] Schedule merak_last_no_recompute_schedule(int ranks, int microbatches);

/// `full_critical_path_1f1b` (also called `shifted_critical_path`): as before, and the last rank but one runs its third
/// forward before its first backward and recomputes early for its first two; the one before it does for its first.
/// Throws InputError for fewer than 3 microbatches, for which Merak has no such schedule.
[[nodiscard]] Schedule merak_full_critical_path_schedule(int ranks, int microbatches);

}  // namespace lowgear::schedule
