#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "checks.h"
#include "rivals/policies/envpipe/envpipe_config.h"
#include "training/launcher/energy/envpipe_config.h"

using namespace lowgear;

/// EnvPipe's own configuration (first byte c), or what a checkpoint has of the policy.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.empty()) return 0;
  try {
    if (text.front() == 'c') {
      (void)policies::read_envpipe_config(text.substr(1), "config");
      return 0;
    }
    const Json document = parse_json(text.substr(1), "state", 1'000);
    const launcher::EnvPipeSaved saved = launcher::read_envpipe_saved(JsonView(document, "state"));
    const Json written = to_json(saved);
    require(launcher::read_envpipe_saved(JsonView(written, "written")) == saved);
  } catch (const InputError&) {
  }
  return 0;
}
