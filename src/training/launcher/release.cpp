#include "training/launcher/release.h"

#include <fmt/format.h>

#include "base/core/error.h"

namespace lowgear::launcher {

std::string_view release() { return LOWGEAR_VERSION; }

void require_release_of(const std::optional<std::string>& launcher) {
  if (!launcher || *launcher == release()) return;
  throw InputError(fmt::format(
      "lowgear is {} and the program of its ranks {}; install both of one release (Debian: apt-get install lowgear "
      "lowgear-trainer)",
      printable(*launcher, 40), release()));
}

}  // namespace lowgear::launcher
