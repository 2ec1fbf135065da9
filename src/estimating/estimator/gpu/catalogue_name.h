#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::estimator {

/// A name as catalogues compare it: lower case, without `-`, `_` and blanks.
[[nodiscard]] std::string catalogue_key(std::string_view name);

/// The names that may be meant by one that is not among them: those that begin so; else the longest within it; else, in
/// its family, those with all its words, else the nearest, else all of the family; else the nearest that begins with
/// the same letter.
[[nodiscard]] std::vector<std::string_view> meant_names(std::string_view name, std::span<const std::string_view> names);

/// Throws InputError that there is no such `kind`, with those of `names` that may be meant by `own`, which is the name
/// or the part of it that counts, else all.
[[noreturn]] void throw_unknown_name(std::string_view kind, std::string_view name, std::string_view own,
                                     std::span<const std::string_view> names);

}  // namespace lowgear::estimator
