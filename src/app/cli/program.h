#pragma once

namespace lowgear::cli {

/// All of `main`: runs the command line and returns the exit code.
[[nodiscard]] int run_program(int argc, char** argv);

}  // namespace lowgear::cli
