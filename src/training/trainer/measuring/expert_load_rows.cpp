#include "training/trainer/measuring/expert_load_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/core/files/memory_files.h"
#include "client/steps/step_rows.h"
#include "planning/steps/expert_loads.h"

namespace lowgear::trainer {

std::string expert_load_rows(std::int64_t step, int replica, std::span<const model::LayerRange> partition,
                             std::span<const ExpertLoads::Pass> passes) {
  std::string rows;
  for (const ExpertLoads::Pass& pass : passes) {
    const auto stage = std::ranges::find_if(partition, [&](const model::LayerRange& layers) {
      return pass.layer >= layers.begin && pass.layer < layers.end;
    });
    fmt::format_to(std::back_inserter(rows), "{},{},{},{},{},{}\n", step, replica, pass.microbatch, pass.layer,
                   stage - partition.begin(), fmt::join(pass.tokens, " "));
  }
  return rows;
}

void cut_expert_loads(const std::filesystem::path& recording, std::int64_t first_step) {
  for (const std::filesystem::path& file : files_in(recording)) {
    if (steps::is_expert_loads_file(file.filename().string())) client::StepRows(file, kExpertLoadsHeader, first_step);
  }
}

}  // namespace lowgear::trainer
