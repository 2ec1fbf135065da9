#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planning/planner/verifier/verify.h"
#include "planning/steps/step_input.h"

namespace lowgear::steps {

/// `own`, `last`, `mean`.
[[nodiscard]] std::string_view name(Foresight foresight);
[[nodiscard]] std::optional<Foresight> foresight_from_name(std::string_view name);

/// Share of the newest step in the mean of `Foresight::last`; of the first steps the mean is a plain one.
inline constexpr double kNewestShare = 0.25;

/// The amounts that each step is planned by, none of its own (`own`: all). A microbatch is expected to have what a
/// replica's microbatches on that stage had on average. A step that lacks amounts adds nothing to later ones; one
/// without steps before has a fault.
[[nodiscard]] Lengths foreseen(const Lengths& lengths, Foresight foresight);

/// `amounts.csv`: the own amounts of each step that states them, from which the others' follow.
[[nodiscard]] std::string write_amounts_table(const Lengths& lengths);

}  // namespace lowgear::steps
