#include "app/operations/commands/envpipe_settings.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "base/core/formats/yaml.h"

namespace lowgear::operations {
namespace {

struct Setting {
  const char* option;
  const char* member;  ///< of `energy.envpipe`
  const char* value;   ///< what help texts call it; FILE: a path
  const char* help;
};

constexpr auto kSettings = std::to_array<Setting>({
    {"--envpipe-config", "config", "FILE",
     "envpipe: read its settings from the member envpipe of this DeepSpeed configuration, as EnvPipe does; options "
     "given here hold rather than the file"},
    {"--envpipe-type", "type", "TYPE",
     "envpipe: all at the highest clock (baseline), each stage at its clock of least energy (uniform), or that within "
     "an outer envelope at the highest clock (envelope, the default)"},
    {"--envpipe-scheduling", "scheduling", "ORDER",
     "envpipe: the order of --schedule (1f1b), or EnvPipe's own with more early forwards, as far as --memory-limit "
     "admits them (ours, the default)"},
    {"--envpipe-reconfig", "reconfig", "METHOD",
     "envpipe: how clocks rise on the path of waiting: not at all (its word is default), one unit a step (greedy), or "
     "all of the lowest clock (balanced, when this is left out)"},
    {"--envpipe-threshold-scale", "threshold_scale", "NUMBER",
     "envpipe: a unit waits when receiving takes this many times the shortest receive of the first step (default 4)"},
    {"--envpipe-start-clock", "start_clock", "MHZ",
     "envpipe: highest clock that it uses (default: the GPUs'; its list for an A100 begins with 1350)"},
    {"--envpipe-lowest-clock", "lowest_clock", "MHZ",
     "envpipe: lowest clock that it uses (default: 0.6 times the highest)"},
    {"--envpipe-profile-step", "profile_step", "MHZ",
     "envpipe: distance of the clocks that the first steps try (default 90, EnvPipe's on every GPU)"},
    {"--envpipe-raise-step", "raise_step", "MHZ",
     "envpipe: by how much a clock rises in one step of the reconfiguration, greedy by three times that (default 30)"},
    {"--envpipe-transfer", "transfer_ms", "MS",
     "envpipe: time of a transfer between stages once both are ready, which is added to every measured wait (default "
     "1)"},
    {"--memory-limit", "memory_limit", "NUMBER|BYTES",
     "policy or schedule envpipe: activations of so many microbatches fit into memory, or one number for each rank "
     "(8,8,6,4; default: what 1F1B holds, so that its own order is 1F1B); with the policy also bytes (12GiB), which "
     "are "
     "divided by what the job measures, or the profile states, of a microbatch"},
    {"--envpipe-profile", "profile", "FILE",
     "envpipe: take the clocks of least energy from this stage profile; without it the first steps of the job try "
     "clocks, six steps each"},
    {"--envpipe-blocking-power", "blocking_power", "W",
     "envpipe: with a profile: watts of a GPU that waits, or a CSV that has them by stage"},
    {"--envpipe-log", "log", "FILE",
     "envpipe: record the receives and the clocks of each step of the reconfiguration in this file"},
});

std::string setting_text(const Setting& setting, const std::string& text) {
  const std::string_view kind = setting.value;
  const bool is_path = kind == "FILE" || text.ends_with(".csv");
  const std::string value = is_path ? yaml_quoted(std::filesystem::absolute(text).string()) : text;
  return fmt::format("energy.envpipe.{}={}", setting.member, value);
}

}  // namespace

void add_envpipe_settings(CLI::App& app, EnvPipeSettings& settings) {
  for (const Setting& setting : kSettings) {
    app.add_option_function<std::string>(
           setting.option,
           [&settings, &setting](const std::string& text) { settings.settings.push_back(setting_text(setting, text)); },
           setting.help)
        ->type_name(setting.value);
  }
}

}  // namespace lowgear::operations
