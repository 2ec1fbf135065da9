#include "app/cli/arguments/blocking_power_argument.h"

#include <fmt/format.h>

#include <optional>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/numbers/number.h"
#include "planning/profile/options.h"

namespace lowgear::cli {
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
  if (!power_w) return profile::read_blocking_power(read_blocking_power_file(argument), argument, stages);
  if (!(*power_w >= 0 && *power_w <= profile::kMaxBlockingPowerW)) {
    throw InputError(fmt::format("blocking power {} W is not in 0 to {}; give the watts of one GPU that waits",
                                 *power_w, profile::kMaxBlockingPowerW));
  }
  if (stages < 1 || stages > profile::kMaxStages) {
    throw InputError(fmt::format("{} stages are not in 1 to {}", stages, profile::kMaxStages));
  }
  return std::vector<double>(static_cast<std::size_t>(stages), *power_w);
}

}  // namespace lowgear::cli
