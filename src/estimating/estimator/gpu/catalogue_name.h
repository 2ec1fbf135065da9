#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lowgear::estimator {

/// A name as catalogues compare it: lower case, without `-`, `_` and blanks.
[[nodiscard]] std::string catalogue_key(std::string_view name);

/// Throws InputError that there is no such `kind`, with those of `names` that begin so, else the nearest, else all.
[[noreturn]] void throw_unknown_name(std::string_view kind, std::string_view name,
                                     std::span<const std::string_view> names);

}  // namespace lowgear::estimator
