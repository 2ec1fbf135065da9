#include "app/cli/arguments/blocking_power_argument.h"

#include <fmt/format.h>

#include <optional>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/number.h"
#include "planning/profile/options.h"

namespace lowgear {
namespace {

std::string read_blocking_power_file(const std::string& argument) {
  try {
    return read_file(argument);
  } catch (const InputError& error) {
    throw InputError(fmt::format(
        "{}; give the blocking power as watts, or as a CSV with the columns stage,blocking_power", error.what()));
  }
}

}  // namespace

std::vector<double> blocking_power_from_argument(const std::string& argument, int stages) {
  const std::optional<double> power_w = parse_number(argument);
  if (!power_w) return read_blocking_power(read_blocking_power_file(argument), argument, stages);
  if (!(*power_w >= 0 && *power_w <= kMaxBlockingPowerW)) {
    throw InputError(fmt::format("blocking power {} W is not in 0 to {}; give the watts of one GPU that waits",
                                 *power_w, kMaxBlockingPowerW));
  }
  if (stages < 1 || stages > kMaxStages) {
    throw InputError(fmt::format("{} stages are not in 1 to {}", stages, kMaxStages));
  }
  return std::vector<double>(static_cast<std::size_t>(stages), *power_w);
}

}  // namespace lowgear
