#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lowgear {

/// The unit of a quantity that was given as a number alone.
enum class Unit : std::uint8_t {
  second,
  millisecond,
  microsecond,
  watt,
  megahertz,
  byte,
  gibibyte,
  gpu_gigabyte,  ///< 2^30 bytes, called GB in the data sheets of GPUs
  gigabyte_per_second,
  percent,
  share,  ///< of 1, or in per cent: 0.05 and 5% are the same
};

/// The number in `unit` that the whole text spells, with or without a unit of the same dimension: as milliseconds,
/// `25`, `25ms`, `25 ms` and `0.025s` are 25. Letters are read in any case (`80gb`), but for the prefixes m and M of
/// `mW` and `MW`. Empty for anything else, as for a unit of another dimension.
[[nodiscard]] std::optional<double> parse_quantity(std::string_view text, Unit unit);

/// Whether `text` is a number above 0 and below 0.5 that is read as per cent but does not say so: 0.05 may be meant as
/// 5 %.
[[nodiscard]] bool may_be_share(std::string_view text);
/// What to write instead of it: `0.05%` or `5%`.
[[nodiscard]] std::string share_or_percent(std::string_view text);

/// A usual amount of the unit from `low` to `high`, for messages: `25ms`.
[[nodiscard]] std::string example_of(Unit unit, double low, double high);
/// The end of a message on a text that is a number with a decimal comma: `; write 2.5%`. Empty for other texts.
[[nodiscard]] std::string comma_hint(std::string_view text);

/// What messages and helps show: `s`, `ms`, `us`, `W`, `MHz`, `B`, `GiB`, `GB`, `GB/s`, `%`; nothing for a share.
[[nodiscard]] std::string_view symbol(Unit unit);

}  // namespace lowgear
