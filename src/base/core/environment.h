#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lowgear {

/// Looks up a variable of the environment; empty when it is not set.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

/// The variables of this process.
[[nodiscard]] Environment process_environment();

}  // namespace lowgear
