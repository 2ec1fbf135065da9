#include "estimating/estimator/peer/published_examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/core/error.h"
#include "estimating/estimator/peer/example_files.h"

namespace lowgear::estimator {
namespace {

constexpr auto kExamples = std::to_array<PublishedExample>(
    {{"llemma-7b-perlmutter", "llemma_7b_4_2_2_P", "Llemma 7B, pp 4, tp 2, dp 2, on 16 A100 80 GB in nodes of four"},
     {"llemma-7b-vista", "llemma_7b_4_2_2_V", "Llemma 7B, pp 4, tp 2, dp 2, on 16 GH200 in nodes of one"}});

constexpr std::string_view kPackaged = "packaged:";
constexpr std::array<std::string_view, 2> kPackages{"perlmutter", "vista"};

}  // namespace

std::span<const PublishedExample> published_examples() { return kExamples; }

const PublishedExample& published_example(std::string_view name) {
  const auto found = std::ranges::find_if(kExamples, [name](const PublishedExample& example) {
    return example.name == name || example.published_name == name;
  });
  if (found != kExamples.end()) return *found;
  std::string names;
  for (const PublishedExample& example : kExamples)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", example.name);
  throw InputError(fmt::format("{} is not an example; there are {}", quote(name), names));
}

std::string_view example_job(const PublishedExample& example) {
  return example_file(fmt::format("{}.yml", example.name));
}

std::optional<FittedTimes> packaged_times(std::string_view folder) {
  if (!folder.starts_with(kPackaged)) return std::nullopt;
  const std::string_view package = folder.substr(kPackaged.size());
  if (std::ranges::find(kPackages, package) == kPackages.end()) {
    throw InputError(
        fmt::format("{} is not packaged; there are packaged:{}", quote(folder), fmt::join(kPackages, ", packaged:")));
  }
  return FittedTimes(example_file(fmt::format("{}_fits.csv", package)), std::string(folder));
}

}  // namespace lowgear::estimator
