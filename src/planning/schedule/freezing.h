#pragma once

#include "planning/schedule/schedule.h"

namespace lowgear::schedule {

/// The schedule for a pipeline whose first `stages` stages are not trained: without their backwards and weight
/// gradients, and without both ends of the messages that bring them gradients. What is left keeps its order. All
/// stages: forwards alone, which evaluate.
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
