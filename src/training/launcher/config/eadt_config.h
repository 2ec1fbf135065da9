#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Configurations of *Energy-Adaptive Distributed Training* (`training_config.yaml`), as its users bring them along.
/// They are translated as far as they say the same here; none is trained by, as the rest would silently be another job.
namespace lowgear::launcher {

struct EadtTranslation {
  std::string config;                ///< YAML of `lowgear train`, with the key that each line comes from
  std::vector<std::string> reasons;  ///< `FILE:LINE:COLUMN: KEY: why it is not in it`, one for each such key
  std::vector<std::string> steps;    ///< what to do next, in order
};

/// Throws InputError where the text is not YAML.
[[nodiscard]] EadtTranslation translate_eadt_config(std::string_view text, const std::string& source);

}  // namespace lowgear::launcher
