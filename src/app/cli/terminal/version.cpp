#include "app/cli/terminal/version.h"

namespace lowgear::cli {

std::string_view version() { return LOWGEAR_VERSION; }

}  // namespace lowgear::cli
