#include <fmt/format.h>
#include <stdlib.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "base/core/number.h"
#include "control/agent/kill_rounds.h"

/// kill_test [ROUNDS SEED]: the real agent and trainers on simulated GPUs, killed at random moments, 1,000 times when
/// nothing is said. Fails when a GPU is left changed or the agent does not come back. Also built as bench's kill_study.
int main(int argc, char** argv) {
  const auto rounds = argc == 3 ? lowgear::parse_integer(argv[1]) : std::optional(1000LL);
  const auto seed = argc == 3 ? lowgear::parse_integer(argv[2]) : std::optional(7LL);
  if (!rounds || !seed || (argc != 1 && argc != 3)) {
    fmt::print(stderr, "usage: kill_test [ROUNDS SEED]\n");
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "lg-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return EXIT_FAILURE;
  bool good = false;
  try {
    lowgear::agent::KillRoundsOptions options;
    options.rounds = static_cast<int>(*rounds);
    options.seed = static_cast<std::uint64_t>(*seed);
    options.agent_binary = LOWGEAR_BINARY;
    options.nvml_library = LOWGEAR_NVML_LIBRARY;
    options.folder = folder;
    const lowgear::agent::KillRoundsResult result = lowgear::agent::run_kill_rounds(options);
    for (const std::string& failure : result.failures) fmt::print("{}\n", failure);
    fmt::print(
        "{} rounds (seed {}): {} trainers and {} agents killed, {} times while a GPU was changed; {} GPUs left "
        "changed, {} starts refused\n",
        result.rounds, *seed, result.trainers_killed, result.agents_killed, result.killed_while_changed,
        result.gpus_left_changed, result.journal_failures);
    good = result.failures.empty() && result.rounds == *rounds && result.killed_while_changed > 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  std::filesystem::remove_all(folder);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
