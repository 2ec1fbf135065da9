#include <fmt/format.h>

#include <string>

#include "agent/kill_rounds.h"
#include "base/core/kill_program.h"

/// kill_test [ROUNDS SEED]: the real agent and trainers on simulated GPUs, killed at random moments, 1,000 times when
/// nothing is said. Fails when a GPU is left changed or the agent does not come back. Also built as bench's kill_study.
int main(int argc, char** argv) {
  return lowgear::kill_program(argc, argv, "kill_test", 1000, [](const lowgear::KillRounds& given) {
    lowgear::agent::KillRoundsOptions options;
    options.rounds = given.rounds;
    options.seed = given.seed;
    options.agent_binary = LOWGEAR_BINARY;
    options.nvml_library = LOWGEAR_NVML_LIBRARY;
    options.folder = given.folder;
    const lowgear::agent::KillRoundsResult result = lowgear::agent::run_kill_rounds(options);
    for (const std::string& failure : result.failures) fmt::print("{}\n", failure);
    fmt::print(
        "{} rounds (seed {}): {} trainers and {} agents killed, {} times while a GPU was changed; {} GPUs left "
        "changed, {} starts refused\n",
        result.rounds, given.seed, result.trainers_killed, result.agents_killed, result.killed_while_changed,
        result.gpus_left_changed, result.journal_failures);
    return result.failures.empty() && result.rounds == given.rounds && result.killed_while_changed > 0;
  });
}
