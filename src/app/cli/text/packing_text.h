#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "planning/sharing/packing.h"

namespace lowgear::cli {

/// What a packing was made of, for its texts.
struct PackingReport {
  sharing::JobTable table;
  std::string gpu_name;
  sharing::GpuFacts gpu;
  sharing::PackOptions options;
  sharing::Packing packing;
};

/// A line per job with its group, a summary, and why other pairs do not share.
[[nodiscard]] std::string packing_text(const PackingReport& report);

/// The same as one object, with all groups and refusals.
[[nodiscard]] Json packing_json(const PackingReport& report);

}  // namespace lowgear::cli
