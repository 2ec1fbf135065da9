#pragma once

#include <string_view>

namespace lowgear::published_estimator {

/// A file of `examples/`, embedded when the module was built. Throws std::out_of_range when there is none of that
/// name.
[[nodiscard]] std::string_view example_file(std::string_view name);

}  // namespace lowgear::published_estimator
