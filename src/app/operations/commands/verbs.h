#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "app/cli/commands/verbs.h"

namespace lowgear::operations {

/// All verbs of the program, in the order of the help: planning; machines, servers and training jobs; the program
/// itself.
[[nodiscard]] std::vector<cli::Verb> all_verbs();

// Each in VERB_command.cpp. Reports:
[[nodiscard]] cli::VerbAction declare_report(CLI::App& app);
[[nodiscard]] cli::VerbAction declare_experiment(CLI::App& app);

// GPUs of a node, in node/:
[[nodiscard]] cli::VerbAction declare_doctor(CLI::App& app);
[[nodiscard]] cli::VerbAction declare_monitor(CLI::App& app);
[[nodiscard]] cli::VerbAction declare_agent(CLI::App& app);
[[nodiscard]] cli::VerbAction declare_simgpu(CLI::App& app);
[[nodiscard]] cli::VerbAction declare_sample(CLI::App& app);

// Servers and training jobs:
[[nodiscard]] cli::VerbAction declare_serve(CLI::App& app);
[[nodiscard]] cli::VerbAction declare_run(CLI::App& app);
[[nodiscard]] cli::VerbAction declare_train(CLI::App& app);
[[nodiscard]] cli::VerbAction declare_data(CLI::App& app);

}  // namespace lowgear::operations
