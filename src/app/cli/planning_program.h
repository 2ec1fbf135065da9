#pragma once

namespace lowgear::cli {

/// All of `main` of the program that has only the commands that plan: runs the command line and returns the exit code.
[[nodiscard]] int run_planning_program(int argc, char** argv);

}  // namespace lowgear::cli
