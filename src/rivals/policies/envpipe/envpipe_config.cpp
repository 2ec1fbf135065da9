#include "rivals/policies/envpipe/envpipe_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <span>
#include <system_error>

#include "base/core/error.h"
#include "base/core/formats/json.h"

namespace lowgear::policies {
namespace {

bool is_equal_in_any_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

constexpr auto kMembers =
    std::to_array<std::string_view>({"type", "scheduling", "reconfig", "gpu", "reconfigure_threshold_scale"});

/// The place of a word among some. Throws InputError.
std::size_t place_of(std::string_view text, std::span<const std::string_view> words) {
  const auto found =
      std::ranges::find_if(words, [&](std::string_view word) { return is_equal_in_any_case(word, text); });
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  throw InputError(fmt::format("{} is not known to EnvPipe; write one of {}", quote(text), fmt::join(words, ", ")));
}

std::size_t place_of(const JsonView& member, std::span<const std::string_view> words) {
  try {
    const std::string text = member.text();
    return place_of(std::string_view(text), words);
  } catch (const InputError& error) {
    member.fail(error.what());
  }
}

/// EnvPipe writes the scale as a text, and reads a number, too.
double scale_of(const JsonView& member) {
  if (!member.json().is_string()) return member.number();
  const std::string text = member.text();
  double scale = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  if (error == std::errc() && end == text.data() + text.size()) return scale;
  member.fail("expected a number", "write how many shortest receives count as waiting, 4 for one node");
}

}  // namespace

EnvPipeOptions read_envpipe_config(std::string_view text, const std::string& source) {
  const Json document = parse_json(text, source);
  const JsonView settings = JsonView(document, source).at("envpipe");
  for (const auto& [name, value] : settings.json().items()) {
    if (std::ranges::find(kMembers, name) != kMembers.end()) continue;
    settings.at(name).fail("EnvPipe has no such setting", fmt::format("write one of {}", fmt::join(kMembers, ", ")));
  }
  EnvPipeOptions options;
  options.type = kEnvPipeTypes.at(place_of(settings.at("type"), kEnvPipeTypeWords));
  options.order = kEnvPipeOrders.at(place_of(settings.at("scheduling"), kEnvPipeOrderWords));
  options.reconfiguration = kEnvPipeReconfigurations.at(place_of(settings.at("reconfig"), kEnvPipeReconfigWords));
  if (settings.has("reconfigure_threshold_scale")) {
    options.threshold_scale = scale_of(settings.at("reconfigure_threshold_scale"));
  }
  if (settings.has("gpu")) {
    set_envpipe_gpu(settings.at("gpu").text(), options);
  }
  return options;
}

void set_envpipe_gpu(const std::string& gpu, EnvPipeOptions& options) {
  const auto found =
      std::ranges::find_if(kEnvPipeGpuWords, [&](std::string_view word) { return is_equal_in_any_case(word, gpu); });
  if (found == kEnvPipeGpuWords.end()) {
    options.unlisted_gpu = gpu;
    return;
  }
  const EnvPipeListedClocks& clocks =
      kEnvPipeListedClocks.at(static_cast<std::size_t>(found - kEnvPipeGpuWords.begin()));
  options.start_clock_mhz = clocks.start_mhz;
  options.lowest_clock_mhz = clocks.lowest_mhz;
}

EnvPipeOptions::Type envpipe_type(std::string_view word) { return kEnvPipeTypes.at(place_of(word, kEnvPipeTypeWords)); }

EnvPipeOptions::Reconfiguration envpipe_reconfiguration(std::string_view word) {
  return kEnvPipeReconfigurations.at(place_of(word, kEnvPipeReconfigWords));
}

}  // namespace lowgear::policies
