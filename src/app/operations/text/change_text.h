#pragma once

#include <string>

namespace lowgear::operations {

/// A difference in percent with its sign, `-12.34 %`; what rounds to nothing is `+0.00 %`.
[[nodiscard]] std::string change_text(double pct);

}  // namespace lowgear::operations
