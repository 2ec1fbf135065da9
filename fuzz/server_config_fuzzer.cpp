/// Reads any text as the server's configuration. What is accepted never listens to other machines without tokens.
#include <cstddef>
#include <cstdint>

#include "any_names.h"
#include "base/core/error.h"
#include "server/server_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const lowgear::server::Config config =
        lowgear::server::parse_server_config({reinterpret_cast<const char*>(data), size}, "server.yaml", any_names());
    try {
      lowgear::server::require_safe_listening(config);
    } catch (const lowgear::InputError&) {
      __builtin_trap();
    }
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
