#include <cstddef>
#include <cstdint>

#include "agent/config/config.h"
#include "any_names.h"
#include "base/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    (void)lowgear::agent::parse_agent_config({reinterpret_cast<const char*>(data), size}, "agent.yaml", any_names());
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
