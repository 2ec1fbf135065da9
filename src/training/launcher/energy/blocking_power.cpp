#include "training/launcher/energy/blocking_power.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/numbers/number.h"
#include "planning/profile/options.h"

namespace lowgear::launcher {

std::vector<double> read_blocking_power(std::string_view setting, const std::string& given, int stages) {
  const std::optional<double> power_w = parse_number(given);
  if (!power_w) return profile::read_blocking_power(read_file(given), given, stages);
  if (!(*power_w >= 0 && *power_w <= profile::kMaxBlockingPowerW)) {
    throw InputError(fmt::format("{}: {} W; give the watts of one GPU that waits", setting, given));
  }
  return std::vector<double>(static_cast<std::size_t>(stages), *power_w);
}

}  // namespace lowgear::launcher
