#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/core/error.h"
#include "control/agent/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const lowgear::NameLookup names{.user = [](const std::string& name) { return static_cast<uid_t>(name.size()); },
                                  .group = [](const std::string& name) -> gid_t {
                                    if (name.empty()) throw lowgear::Error("there is no such group");
                                    return static_cast<gid_t>(name.size());
                                  }};
  try {
    (void)lowgear::agent::parse_agent_config({reinterpret_cast<const char*>(data), size}, "agent.toml", names);
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
