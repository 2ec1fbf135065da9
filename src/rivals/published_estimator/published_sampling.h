#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lowgear::published_estimator {

/// The job of a YAML file of the published sampler, as arguments of `lowgear sample`.
struct PublishedSampling {
  std::string subject;             ///< `operators` or `collectives`
  std::vector<std::string> words;  ///< `--operators`, `linear1`, `--tp`, `1,2,4`, ...
};

/// Reads a file that its `sampling_controller.py --config_path` reads: of an operator (`collect`, `test`, `profilers`)
/// or a collective. `run: get_one` and `get_profiler` mean the one shape in `shapes`, everything else the grid of
/// `starts`, `steps`, `ends` and `operators` (that of `moe` lacks two sizes: see is_multiplied). Collectives get powers
/// of two from the smallest to the largest message of fp16 numbers. Settings of its profiler (`wait`, `targets`,
/// ...) are ignored. Throws InputError with line and column on missing or invalid values, and on functions that
/// `lowgear sample` does not have.
[[nodiscard]] PublishedSampling parse_published_sampling(std::string_view yaml, const std::string& source);

}  // namespace lowgear::published_estimator
