#pragma once

namespace lowgear::operations {

/// All of `main` of `lowgear`: runs the command line and returns the exit code.
[[nodiscard]] int run_program(int argc, char** argv);

}  // namespace lowgear::operations
