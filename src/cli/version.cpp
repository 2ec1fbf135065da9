#include "cli/version.h"

namespace lowgear {

std::string_view version() { return LOWGEAR_VERSION; }

}  // namespace lowgear
