#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lowgear::profile {

/// Longest setting: one choice for each of some dozens of parts.
inline constexpr std::size_t kMaxSettingBytes = 512;

/// What is wrong with the name of a setting, in a form for messages; nothing if it is good. A setting is what an op is
/// run with besides its SM clock: a power limit, a memory clock, the SMs of a collective, a variant of a kernel. Its
/// name is the user's, empty or 1 to kMaxSettingBytes of `A-Z a-z 0-9 . _ = ; : + / @ -`, of which the first is a
/// letter or a digit: it passes through CSV, JSON, HTML and spreadsheets as it is.
[[nodiscard]] std::optional<std::string> problem_with_setting(std::string_view setting);

}  // namespace lowgear::profile
