/// Reads any text as the server's configuration. What is accepted never listens to other machines without tokens.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/core/error.h"
#include "control/server/server_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const lowgear::NameLookup names{.user = [](const std::string& name) { return static_cast<uid_t>(name.size()); },
                                  .group = [](const std::string& name) -> gid_t {
                                    if (name.empty()) throw lowgear::Error("there is no such group");
                                    return static_cast<gid_t>(name.size());
                                  }};
  try {
    const lowgear::server::Config config =
        lowgear::server::parse_server_config({reinterpret_cast<const char*>(data), size}, "server.toml", names);
    try {
      lowgear::server::require_tokens(config);
    } catch (const lowgear::InputError&) {
      __builtin_trap();
    }
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
