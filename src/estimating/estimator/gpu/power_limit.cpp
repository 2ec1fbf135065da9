#include "estimating/estimator/gpu/power_limit.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/core/error.h"
#include "estimating/estimator/gpu/gpu_model.h"

namespace lowgear::estimator {
namespace {

/// A name of the driver that has both words, and the same GPU in the estimator's catalogue.
struct DriverName {
  std::string_view model;
  std::string_view variant;  ///< empty: any
  std::string_view catalogue_name;
};
constexpr auto kDriverNames = std::to_array<DriverName>({
    {"V100", "SXM2", "v100-sxm"},
    {"A40", "", "a40"},
    {"A100", "SXM4", "a100-80gb-sxm"},
    {"A100", "80GB PCIe", "a100-80gb-pcie"},
    {"H100", "PCIe", "h100-pcie"},
    {"H100", "HBM3", "h100-sxm"},  // SXM, whose name does not say so
    {"GH200", "", "gh200"},
    {"B200", "", "b200"},
});
constexpr std::string_view kDriverNameOfH200 = "NVIDIA H200";  // NVL, with another limit, has one word more

/// Whether a name holds a word (or several), and not only as a part of others: `A40` is not in `NVIDIA A400`.
bool has_word(std::string_view name, std::string_view word) {
  const auto is_edge = [name](std::size_t place) {
    return place >= name.size() || name[place] == ' ' || name[place] == '-' || name[place] == '_';
  };
  for (std::size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    if ((at == 0 || is_edge(at - 1)) && is_edge(at + word.size())) return true;
  }
  return false;
}

/// The name in the estimator's catalogue for one of the driver; any other as it is.
std::string_view catalogue_name_of(std::string_view gpu_name) {
  if (gpu_name == kDriverNameOfH200) return "h200-sxm";
  const auto* const found = std::ranges::find_if(kDriverNames, [&](const DriverName& row) {
    return has_word(gpu_name, row.model) && (row.variant.empty() || has_word(gpu_name, row.variant));
  });
  return found == kDriverNames.end() ? gpu_name : found->catalogue_name;
}

}  // namespace

std::optional<profile::NamedPowerLimit> power_limit_of(std::string_view gpu_name) {
  try {
    return profile::NamedPowerLimit{std::string(gpu_name), named_gpu(catalogue_name_of(gpu_name)).power.limit_w};
  } catch (const InputError&) {
    return std::nullopt;  // not in the catalogue: any model of GPU may be named
  }
}

}  // namespace lowgear::estimator
