#pragma once

namespace lowgear::trainer {

/// All of `main` of lowgear-trainer, one rank of a training job: trains and returns the exit code.
[[nodiscard]] int run_worker(int count, char** words);

}  // namespace lowgear::trainer
