#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lowgear::profile {

/// Largest time until a clock change takes effect that is accepted, in seconds.
inline constexpr double kMaxSwitchLatencyS = 1000;
/// The largest in a profile: GPUs take milliseconds, some of them tenths of a second.
inline constexpr double kMaxProfiledLatencyS = 1;

/// The column `switch_latency` (s) of a stage profile's CSV: how late a clock change takes effect on the GPUs that were
/// measured (`find_switch_latency`). It is optional, and so is each of its cells; of different values the largest
/// counts. Empty where there is none. Throws InputError with file, line and column on what is no number in
/// [0, kMaxProfiledLatencyS].
[[nodiscard]] std::optional<double> read_switch_latency(std::string_view text, const std::string& source);

/// `profile_csv` as `write_stage_profile` writes it, with that column; unchanged where the latency is not known.
[[nodiscard]] std::string with_switch_latency(std::string profile_csv, std::optional<double> latency_s);

}  // namespace lowgear::profile
