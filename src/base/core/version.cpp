#include "base/core/version.h"

namespace lowgear {

std::string version() { return LOWGEAR_VERSION; }

}  // namespace lowgear
