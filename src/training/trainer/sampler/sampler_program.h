#pragma once

namespace lowgear::trainer {

/// All of `main` of lowgear-sampler: times operators in one process, or collectives as one rank of several, and returns
/// the exit code.
[[nodiscard]] int run_sampler_program(int count, char** words);

}  // namespace lowgear::trainer
