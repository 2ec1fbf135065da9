#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/published_runs.h"

/// Runs that public repositories report for frameworks as people use them. Rows of ../shared/data/public-rows: `text`
/// is the file. What a row does not state comes from the scripts of its repository, or is an assumption that stands
/// here.
namespace lowgear::estimator {

/// mosaicml/llm-foundry, scripts/train/benchmarking: MPT of 125M to 70B with PyTorch's FSDP on A100.
[[nodiscard]] std::vector<PublishedRun> llm_foundry_runs(std::string_view text, const std::string& source);

/// NVIDIA/dgxc-benchmarking: Megatron in NeMo, and MaxText, on H100 and GB200.
[[nodiscard]] std::vector<PublishedRun> dgxc_runs(std::string_view text, const std::string& source);

/// FlagOpen/FlagPerf: Megatron, FlagScale and DeepSpeed on A100, A800, H100 and H800, with memory. One row ran out of
/// memory.
[[nodiscard]] std::vector<PublishedRun> flagperf_runs(std::string_view text, const std::string& source);

/// pytorch/torchtitan, docs/performance.md (FSDP2 on 64 A100) and benchmarks/llama3_h100_202412 (H100 with 96 GB of
/// HBM2e, limited to 500 W).
[[nodiscard]] std::vector<PublishedRun> torchtitan_runs();

/// MLPerf Training v4.0, GPT-3 175B in fp8 on 512 and 10,752 H100: step times of NVIDIA's logs.
[[nodiscard]] std::vector<PublishedRun> mlperf_runs();

}  // namespace lowgear::estimator
