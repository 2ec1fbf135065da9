#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lowgear::cli {

/// Manual page (roff, section 1) of a verb, or of the whole program when `app` is that: made from its help.
[[nodiscard]] std::string manual_page(const CLI::App& app);

}  // namespace lowgear::cli
