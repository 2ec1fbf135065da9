#pragma once

#include <array>
#include <string_view>

#include "base/core/environment.h"

/// Messages of the programs on standard error. Commands address their user through cli::Console; all other code writes
/// messages for debugging alone.
namespace lowgear {

enum class LogLevel : unsigned char { debug, info, warning, error };
inline constexpr auto kLogLevelNames = std::to_array<std::string_view>({"debug", "info", "warning", "error"});

/// The environment variable that sets the level; the children of a program inherit it.
inline constexpr const char* kLogVariable = "LOWGEAR_LOG";

/// Level of this process; `info` at first.
[[nodiscard]] LogLevel log_level();
void set_log_level(LogLevel level);
/// Sets the level that the environment names in kLogVariable, in upper or lower case. A variable that is empty or not
/// set changes nothing. Throws InputError for another word.
void set_log_level(const Environment& environment);

[[nodiscard]] inline bool logs_debug() { return log_level() == LogLevel::debug; }

/// Writes one line to standard error if the level is `debug`. Lines of other threads and processes do not mix with it.
/// Callers whose text takes time to make ask logs_debug() first.
void log_debug(std::string_view text);

}  // namespace lowgear
