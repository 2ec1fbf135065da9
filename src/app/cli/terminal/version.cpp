#include "app/cli/terminal/version.h"

namespace lowgear {

std::string_view version() { return LOWGEAR_VERSION; }

}  // namespace lowgear
