#pragma once

#include <CLI/CLI.hpp>

#include "planning/workflow/deadlines.h"

namespace lowgear::cli {

/// `--deadline`, `--slowdown` and `--straggler`, which exclude each other.
void add_single_deadline_options(CLI::App& app, workflow::Deadlines& deadlines);
/// `--deadline`, `--slowdown`, `--straggler` and `--plans`, which exclude each other.
void add_deadline_options(CLI::App& app, workflow::Deadlines& deadlines);

}  // namespace lowgear::cli
