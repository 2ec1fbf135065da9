#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "estimating/model/partition.h"
#include "training/trainer/model/expert_loads.h"

namespace lowgear::trainer {

/// `expert_loads-RANK.csv`: the tokens of each expert in the layers of a rank, as `lowgear plan --lengths` reads them.
inline constexpr std::string_view kExpertLoadsHeader = "step,replica,microbatch,layer,stage,expert_tokens";
/// `partition` has the layers of every virtual stage.
[[nodiscard]] std::string expert_load_rows(std::int64_t step, int replica, std::span<const model::LayerRange> partition,
                                           std::span<const ExpertLoads::Pass> passes);
/// Drops the rows of steps from `first_step` on in the files of all ranks: a continued job computes these steps again,
/// maybe with another layout, in which some of the ranks write none.
void cut_expert_loads(const std::filesystem::path& recording, std::int64_t first_step);

}  // namespace lowgear::trainer
