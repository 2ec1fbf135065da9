#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lowgear::cli {

/// A script that completes verbs, options and, for options that take a file or a folder, paths. `app` is the whole
/// program.
[[nodiscard]] std::string bash_completion(const CLI::App& app);
[[nodiscard]] std::string zsh_completion(const CLI::App& app);

}  // namespace lowgear::cli
