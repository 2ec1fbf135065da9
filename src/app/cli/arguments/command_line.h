#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lowgear::cli {

/// The command line that a verb was called with, as one could type it again: `lowgear plan --stages 8 ...`.
[[nodiscard]] std::string command_line(const CLI::App& verb);

/// A word as a shell reads it: in single quotes where it needs some.
[[nodiscard]] std::string shell_word(const std::string& text);

}  // namespace lowgear::cli
