#pragma once

#include <string>
#include <string_view>

namespace lowgear::server {

/// 128 random bits of the kernel as 32 hexadecimal digits: the key with which a rank authenticates. Throws Error when
/// the kernel gives none.
[[nodiscard]] std::string new_secret();

/// Whether two secrets are the same, in a time that says nothing about where they differ (it depends on `given`'s
/// length alone, which its sender knows).
[[nodiscard]] bool same_secret(std::string_view given, std::string_view expected);

}  // namespace lowgear::server
