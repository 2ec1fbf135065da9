#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lowgear::launcher {

/// By stage, what a setting of the configuration says of a GPU that waits: watts, or the file that has them by stage.
/// `setting` names it in errors. Throws InputError when it is neither, or as `profile::read_blocking_power`.
[[nodiscard]] std::vector<double> read_blocking_power(std::string_view setting, const std::string& given, int stages);

}  // namespace lowgear::launcher
