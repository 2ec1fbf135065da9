#pragma once

#include <CLI/CLI.hpp>

#include "planning/workflow/deadlines.h"

namespace lowgear {

/// `--deadline`, `--slowdown` and `--straggler`, which exclude each other.
void add_single_deadline_options(CLI::App& app, Deadlines& deadlines);
/// `--deadline`, `--slowdown`, `--straggler` and `--plans`, which exclude each other.
void add_deadline_options(CLI::App& app, Deadlines& deadlines);

}  // namespace lowgear
