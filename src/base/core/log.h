#pragma once

#include <array>
#include <string_view>

#include "base/core/environment.h"

/// How much the programs say on standard error. What a command says to its user goes through cli::Console; the rest of
/// the code has messages for debugging alone.
namespace lowgear {

enum class LogLevel : unsigned char { debug, info, warning, error };
inline constexpr auto kLogLevelNames = std::to_array<std::string_view>({"debug", "info", "warning", "error"});

/// The variable with the level, which a program's children inherit.
inline constexpr const char* kLogVariable = "LOWGEAR_LOG";

/// Of the process; `info` at first.
[[nodiscard]] LogLevel log_level();
void set_log_level(LogLevel level);
/// As kLogVariable says, in any case of letters; leaves the level where it is not set or empty. Throws InputError for
/// another word.
void set_log_level(const Environment& environment);

[[nodiscard]] inline bool logs_debug() { return log_level() == LogLevel::debug; }
/// Writes one line to standard error, whole also beside those of other threads and processes, if the level is `debug`.
/// What takes time to put into words is to ask logs_debug() first.
void log_debug(std::string_view text);

}  // namespace lowgear
