#include "base/core/environment.h"

#include <cstdlib>

namespace lowgear {

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets the environment
    const char* value = std::getenv(std::string(name).c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
}

}  // namespace lowgear
