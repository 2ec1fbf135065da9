#pragma once

#include <vector>

#include "app/cli/commands/verbs.h"

namespace lowgear::cli {

/// All of `main`: runs the command line of a program with these verbs and returns the exit code.
[[nodiscard]] int run_program(int argc, char** argv, std::vector<Verb> verbs);

}  // namespace lowgear::cli
