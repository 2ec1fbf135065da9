#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::estimator {

/// A name as catalogues compare it: lower case, without `-`, `_` and blanks.
[[nodiscard]] std::string catalogue_key(std::string_view name);

/// The names that an unknown name may mean. In this order: names that begin with it; the longest name within it; in its
/// family, names with all its words, else the nearest, else the whole family; the nearest with the same first letter.
[[nodiscard]] std::vector<std::string_view> meant_names(std::string_view name, std::span<const std::string_view> names);

/// Throws InputError for an unknown `name` of a `kind` (`model`). It lists the `names` that `own`, the distinctive part
/// of the name, may mean, or else all.
[[noreturn]] void throw_unknown_name(std::string_view kind, std::string_view name, std::string_view own,
                                     std::span<const std::string_view> names);

}  // namespace lowgear::estimator
