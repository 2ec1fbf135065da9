#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/op_kind.h"

namespace lowgear {

/// One step of a rank: a computation, or one end of a point-to-point message. `send_f` carries the activation of
/// (stage, microbatch) to stage + 1; `recv_f` is how stage receives the activation from stage - 1; `send_b` carries the
/// gradient of (stage, microbatch) to stage - 1; `recv_b` is how stage receives it from stage + 1 (PyTorch's meaning).
enum class ActionKind : unsigned char { compute, send_f, recv_f, send_b, recv_b };

struct Action {
  ActionKind kind = ActionKind::compute;
  OpKind op = OpKind::forward;  ///< meaningful for `compute`
  int stage = 0;                ///< virtual stage
  int microbatch = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

/// A pipeline schedule as data: what each rank executes, in order.
struct Schedule {
  std::string name;  ///< `1f1b`, `gpipe`, `interleaved`, ... or the name of the file it was read from
  int stages = 0;    ///< virtual stages
  int microbatches = 0;
  std::vector<std::vector<Action>> ranks;

  [[nodiscard]] int rank_count() const { return static_cast<int>(ranks.size()); }
};

/// Rank of each virtual stage, read off the schedule. Throws InputError when a stage runs on two ranks or on none.
[[nodiscard]] std::vector<int> rank_of_stage(const Schedule& schedule);

/// Throws InputError unless every (stage, microbatch) has exactly one forward and exactly one backward, or one
/// input_gradient and one weight_gradient in its place, and all stages and microbatches are in range. The message names
/// the rank, the position and the action in PyTorch's notation.
void validate(const Schedule& schedule);

/// The schedule with its communication written out: the sends and receives that its computations imply, each send right
/// behind the computation that makes its data and each receive right before the one that needs it. Messages between
/// stages of one rank need none. A schedule that has communication already is returned unchanged.
[[nodiscard]] Schedule with_communication(const Schedule& schedule);

/// The schedule without sends and receives.
[[nodiscard]] Schedule without_communication(const Schedule& schedule);

/// Peak number of microbatches per rank whose forward is done on a stage of the rank and whose backward (or
/// weight_gradient) is not: what activation memory has to hold, in stage-microbatches.
[[nodiscard]] std::vector<int> peak_in_flight_activations(const Schedule& schedule);

}  // namespace lowgear
