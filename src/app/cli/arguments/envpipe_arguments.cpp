#include "app/cli/arguments/envpipe_arguments.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>

#include "app/cli/arguments/options.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "planning/joint/orders/joint_problem.h"
#include "rivals/policies/envpipe/envpipe_config.h"

namespace lowgear::cli {
namespace {

using policies::EnvPipeOptions;

/// An option that goes to `member` of the settings when it was given.
template <typename Value, typename Member>
auto given(EnvPipeArguments& arguments, Member member) {
  return [&arguments, member](Value value) {
    arguments.given.emplace_back([member, value](EnvPipeOptions& options) { options.*member = value; });
  };
}

template <typename Value, std::size_t kCount>
void add_word(CLI::App& app, const std::string& name, std::span<const std::string_view> words,
              const std::array<Value, kCount>& values, Value EnvPipeOptions::*member, EnvPipeArguments& arguments,
              const std::string& help) {
  add_choice(
      app, name, words, [set = given<Value>(arguments, member), &values](std::size_t place) { set(values.at(place)); },
      help);
}

}  // namespace

void add_envpipe_options(CLI::App& app, EnvPipeArguments& arguments) {
  app.add_option("--envpipe-config", arguments.config,
                 "envpipe: read its settings from the member envpipe of this DeepSpeed configuration, as EnvPipe does; "
                 "options of the command line override the file")
      ->type_name("FILE");
  add_word(app, "--envpipe-type", policies::kEnvPipeTypeWords, policies::kEnvPipeTypes, &EnvPipeOptions::type,
           arguments,
           "envpipe: clocks of the units: all at the highest (baseline), each stage at its clock of least energy "
           "(uniform), or uniform within an outer envelope at the highest clock (envelope, the default)");
  add_word(app, "--envpipe-scheduling", policies::kEnvPipeOrderWords, policies::kEnvPipeOrders, &EnvPipeOptions::order,
           arguments,
           "envpipe: the order of --schedule (1f1b), or EnvPipe's own with more early forwards, as far as memory "
           "admits them (ours, the default)");
  add_word(app, "--envpipe-reconfig", policies::kEnvPipeReconfigWords, policies::kEnvPipeReconfigurations,
           &EnvPipeOptions::reconfiguration, arguments,
           "envpipe: how clocks rise on the path of waiting: never (default, EnvPipe's name for this), one unit per "
           "step (greedy), or all units with the lowest clock (balanced, also if this option is left out)");
  add_number(app, "--envpipe-threshold-scale", {0, 1e9}, given<double>(arguments, &EnvPipeOptions::threshold_scale),
             "envpipe: a unit waits when receiving takes this many times the shortest receive (default 4)");
  add_clock(app, "--envpipe-start-clock", given<int>(arguments, &EnvPipeOptions::start_clock_mhz),
            "envpipe: highest clock that the policy uses, in MHz (default: the profile's; EnvPipe's list for an "
            "A100 begins with 1350)");
  add_clock(app, "--envpipe-lowest-clock", given<int>(arguments, &EnvPipeOptions::lowest_clock_mhz),
            "envpipe: lowest clock that the policy uses, in MHz (default: the profile's)");
  add_clock(app, "--envpipe-profile-step", given<int>(arguments, &EnvPipeOptions::profile_step_mhz),
            "envpipe: distance between the clocks among which the policy finds the one of least energy, in MHz "
            "(default 90, EnvPipe's value for every GPU)");
  add_clock(app, "--envpipe-raise-step", given<int>(arguments, &EnvPipeOptions::raise_step_mhz),
            "envpipe: rise of a clock in one step of the reconfiguration; greedy raises it by three times as much, in "
            "MHz (default 30)");
  add_quantity(
      app, "--envpipe-transfer", Unit::millisecond, {0, 1e6},
      [&arguments](double time_ms) {
        arguments.given.emplace_back([time_ms](EnvPipeOptions& options) {
          options.transfer_s = time_ms * 1e-3;
          options.transfer_by_link_s.clear();
        });
      },
      "envpipe: time of a transfer between stages once both are ready, in ms (default: the profile's column transfer, "
      "else 1)");
  group_options(app, "Policies of others",
                {"--envpipe-config", "--envpipe-type", "--envpipe-scheduling", "--envpipe-reconfig",
                 "--envpipe-threshold-scale", "--envpipe-start-clock", "--envpipe-lowest-clock",
                 "--envpipe-profile-step", "--envpipe-raise-step", "--envpipe-transfer"});
}

EnvPipeOptions envpipe_options(const EnvPipeArguments& arguments, const std::optional<std::string>& memory_limit,
                               const std::optional<int>& extra_activations, const PipelineInput& input) {
  const api::ProfiledPipeline& pipeline = input.pipeline;
  EnvPipeOptions options;
  if (!arguments.config.empty()) options = policies::read_envpipe_config(read_file(arguments.config), arguments.config);
  options.transfer_by_link_s = input.file.columns.transfer_s;
  for (const auto& set : arguments.given) set(options);
  if (extra_activations) options.extra_activations = {*extra_activations};
  if (!memory_limit) return options;
  if (extra_activations) throw InputError("--extra-activations: give it or --memory-limit");
  const int ranks = pipeline.schedule.rank_count();
  const int microbatches = pipeline.schedule.microbatches;
  // The column states activations by stage, not by rank: with virtual stages a rank has several.
  const bool by_rank = input.file.columns.activation_bytes.size() == static_cast<std::size_t>(ranks);
  const joint::MemoryLimit limit =
      joint::parse_memory_limit(*memory_limit, by_rank ? std::span<const double>(input.file.columns.activation_bytes)
                                                       : std::span<const double>());
  try {
    options.extra_activations = activations_beyond_1f1b(limit, ranks, microbatches);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--memory-limit {}: {}", *memory_limit, error.what()));
  }
  return options;
}

}  // namespace lowgear::cli
