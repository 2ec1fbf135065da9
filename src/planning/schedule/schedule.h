#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/core/op_kind.h"

namespace lowgear::schedule {

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

/// The action in PyTorch's notation: `0F3`, `1I2`, `2SEND_B5`; recomputations are `0R3`, backwards that recompute
/// `0C3`.
[[nodiscard]] std::string to_string(const Action& action);

/// A pipeline schedule as data: what each rank executes, in order.
struct Schedule {
  std::string name;  ///< `1f1b`, `gpipe`, `interleaved`, ... or the name of the file it was read from
  int stages = 0;    ///< virtual stages
  int microbatches = 0;
  std::vector<std::vector<Action>> ranks;
  /// The first stages of which nothing is trained: they have forwards only, and no gradient is sent to them
  /// (`with_frozen_stages`). All stages: the schedule evaluates.
  int frozen_stages = 0;

  [[nodiscard]] int rank_count() const { return static_cast<int>(ranks.size()); }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// The most actions that a schedule may have: 2^26. One of that size takes about 3 GiB with its graph.
inline constexpr std::size_t kMaxActions = std::size_t{1} << 26;

/// Actions of all ranks.
[[nodiscard]] std::size_t action_count(const Schedule& schedule);

/// Whether any rank computes an op of this kind.
[[nodiscard]] bool runs(const Schedule& schedule, OpKind kind);

/// Whether any op repeats a forward.
[[nodiscard]] bool recomputes(const Schedule& schedule);

/// Rank of each virtual stage, read off the schedule's computations. Throws InputError when a stage runs on two ranks
/// or on none.
[[nodiscard]] std::vector<int> rank_of_stage(const Schedule& schedule);

/// Throws InputError unless every (stage, microbatch) has exactly one forward and exactly one backward, or one
/// input_gradient and one weight_gradient in its place, and with them at most one recomputation, or one
/// recomputing_backward in place of all (on frozen stages a forward alone), all stages and microbatches are in range,
/// every stage runs on one rank and every rank runs a stage; and, where the schedule has sends and receives, unless
/// they are complete (`validate_communication`). The message names the rank, the step (0-based place in the rank's
/// list) and the action in PyTorch's notation.
void validate(const Schedule& schedule);

/// Peaks of the activations that a rank holds for backwards, in stage-microbatches. The two peaks may be at different
/// times. Frozen stages keep nothing.
struct HeldPeaks {
  /// All that a forward computes: from the forward, or where it is repeated from the recomputation, until the backward
  /// (or weight_gradient) is done. A recomputing backward holds it while it runs.
  int activations = 0;
  /// The stage's input alone: from a forward that is repeated until it is repeated.
  int inputs = 0;

  friend bool operator==(const HeldPeaks&, const HeldPeaks&) = default;
};

/// By rank.
[[nodiscard]] std::vector<HeldPeaks> held_peaks(const Schedule& schedule);

/// `held_peaks` without the inputs: what activation memory has to hold.
[[nodiscard]] std::vector<int> peak_in_flight_activations(const Schedule& schedule);

/// Microbatches of an iteration of one pipeline, as far as plan files go.
inline constexpr int kMaxMicrobatches = 1'000'000;

/// The schedule for a pipeline whose first `stages` stages are not trained: without their backwards and weight
/// gradients, and without both ends of the messages that bring them gradients. The remaining steps keep their order.
/// All stages: forwards alone, which evaluate.
///
/// A schedule that could run still can, also where a send blocks: take the order of all computations and messages in
/// which it ran; it stays one in which each rank finds its next step first when steps are taken out of it, a message's
/// two ends together.
///
/// Throws InputError when `stages` is less than are frozen already or more than there are.
[[nodiscard]] Schedule with_frozen_stages(const Schedule& schedule, int stages);

/// How many of the first stages have no backward at all: what `frozen_stages` is to be where only the actions are
/// known. 0 when no stage has one, as then they were forgotten.
[[nodiscard]] int stages_without_backward(const Schedule& schedule);

}  // namespace lowgear::schedule
