#pragma once

#include "planning/schedule/schedule.h"

/// Merak's training schedules (Lai et al. 2022, "Merak: An Efficient Distributed DNN Training Framework with Automated
/// 3D Parallelism for Giant Foundation Models"; `runtime/schedule.py` of its repository), which run with activation
/// checkpointing: a forward keeps its input, and is repeated before its backward. Where Merak repeats it inside the
/// backward, once the gradient is there, the schedule has a recomputing backward; where Merak repeats it first and then
/// receives the gradient, a recomputation and a backward. All are 1F1B but for what is said below. All throw
/// InputError when there are no ranks or microbatches or too many (`check_size`).
namespace lowgear::schedule {

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
