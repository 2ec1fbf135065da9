#pragma once

#include <string_view>

#include "base/core/environment.h"

/// How much the programs say on standard error. What a command says to its user goes through cli::Console; the rest of
/// the code has messages for debugging alone.
namespace lowgear {

enum class LogLevel : unsigned char { debug, info, warning, error };

/// The variable with the level, which a program's children inherit.
inline constexpr const char* kLogVariable = "LOWGEAR_LOG";

/// `debug`, `info`, `warning`, `error`, in any case. Throws InputError, naming `source`, for another text.
[[nodiscard]] LogLevel parse_log_level(std::string_view text, std::string_view source);

/// Of the process; `info` at first.
[[nodiscard]] LogLevel log_level();
void set_log_level(LogLevel level);
/// As kLogVariable says; leaves the level where it is not set or empty. Throws as parse_log_level.
void set_log_level(const Environment& environment);

[[nodiscard]] inline bool logs_debug() { return log_level() == LogLevel::debug; }
/// Writes one line to standard error, whole also beside those of other threads and processes, if the level is `debug`.
/// What takes time to put into words is to ask logs_debug() first.
void log_debug(std::string_view text);

}  // namespace lowgear
