#pragma once

#include <string>
#include <string_view>

#include "planning/schedule/schedule.h"

namespace lowgear::schedule {

/// Reads a schedule in the CSV form of PyTorch's `torch.distributed.pipelining` (`_load_csv` and `_dump_csv`, formats
/// `compute_only` and `compute_comms`): one row per rank, one action per cell as `[stage][type][microbatch]`, types
/// F, B, I, W, SEND_F, RECV_F, SEND_B and RECV_B; and R and C, which PyTorch does not know: recomputations, and
/// backwards that recompute. Numbers of stages and microbatches are the highest ones met plus one; first stages without
/// any backward are frozen.
///
/// Empty cells (bubbles) and empty lines are skipped: only the order counts. UNSHARD, RESHARD and REDUCE_GRAD move
/// parameters and gradients within a stage's data-parallel group, are no part of the pipeline's dependencies, and are
/// left out. `(0F1;1B2)OVERLAP_F_B` is read as its parts one after the other, which is how PyTorch runs it unless a
/// custom function is registered for it.
///
/// Throws InputError with file, line and column where a cell cannot be read, and whatever `validate` throws. The
/// schedule is named `source`.
[[nodiscard]] Schedule read_torch_csv(std::string_view text, const std::string& source);

/// Writes the same form, with the sends and receives that the schedule has, and no empty cells.
[[nodiscard]] std::string write_torch_csv(const Schedule& schedule);

}  // namespace lowgear::schedule
