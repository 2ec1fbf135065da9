#include "training/launcher/release.h"

#include <fmt/format.h>

#include "base/core/error.h"
#include "base/core/version.h"

namespace lowgear::launcher {

void require_release_of(const std::optional<std::string>& launcher) {
  if (!launcher || *launcher == version()) return;
  throw InputError(fmt::format(
      "lowgear is {} and the program of its ranks {}; install both of one release (Debian: apt-get install lowgear "
      "lowgear-trainer)",
      printable(*launcher, 40), version()));
}

}  // namespace lowgear::launcher
