#include "app/cli/arguments/joint_arguments.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/terminal/process.h"
#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "planning/api/profile_fitting.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/schedule/schedule.h"

namespace lowgear::cli {
namespace {

constexpr auto kRecomputationWords = std::to_array<std::string_view>({"added", "removed"});

std::optional<int> layer_number(std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number >= profile::kMaxStages) return std::nullopt;
  return static_cast<int>(*number);
}

profile::Partition parse_layers(std::string_view text) {
  profile::Partition layers;
  for (std::string_view rest = text; true;) {
    const auto [word, others] = split_at(rest, ',');
    const auto count = layer_number(word);
    if (!count || *count < 1) {
      throw InputError(
          fmt::format("--layers: expected the layers of the model or of every stage, as 96 or 12,12,12,10, "
                      "not {}",
                      quote(text)));
    }
    layers.push_back(*count);
    if (word.size() == rest.size()) return layers;
    rest = others;
  }
}

}  // namespace

CLI::Option* add_layers_option(CLI::App& app, std::string& layers) {
  return app
      .add_option("--layers", layers,
                  "Layers of the model, divided evenly over the stages, the first stages one more; or the layers of "
                  "every stage: 12,12,12,10")
      ->type_name("N[,N...]");
}

void add_work_change_options(CLI::App& app, WorkChangeArguments& arguments) {
  add_layers_option(app, arguments.layers)->required();
  add_whole_number(app, "--freeze", {0, profile::kMaxStages}, into(arguments.frozen_layers),
                   "Number of first layers to freeze, together with the embedding (default 0)");
  app.add_option("--scale", arguments.scales,
                 "Layers FIRST to LAST take TIME times their time and ENERGY times their energy (default as the time), "
                 "as with another precision; may be repeated")
      ->type_name("FIRST-LAST=TIME[,ENERGY]")
      ->expected(1)
      ->take_all()
      ->each([](const std::string& text) {
        try {
          (void)parse_layer_scale(text);
        } catch (const InputError& error) {
          throw CLI::ValidationError(error.what());
        }
      });
  add_quantity(
      app, "--drop-weight-gradients", Unit::share, {0, 0.9}, into(arguments.dropped_weight_gradients),
      "Share of the weight gradients of all layers that steps leave out: weight gradients take that share less "
      "time and energy, whole backwards half of it (default 0)");
  add_choice(
      app, "--recompute", kRecomputationWords,
      [&arguments](std::size_t place) {
        arguments.recomputation = place == 0 ? api::Recomputation::added : api::Recomputation::removed;
      },
      "Change against the profile: layers now repeat their forward before their backward (added), or no longer do "
      "(removed)");
  add_whole_number(app, "--microbatches", {1, schedule::kMaxMicrobatches}, into(arguments.microbatches),
                   "Microbatches per iteration from now on (default as before)");
}

profile::Partition partition_from_layers(const std::string& text, int stages) {
  profile::Partition layers = parse_layers(text);
  if (layers.size() == 1 && stages > 1) return profile::uniform_partition(layers.front(), stages);
  if (layers.size() != static_cast<std::size_t>(stages)) {
    throw InputError(
        fmt::format("--layers names {} stages and the pipeline has {}; give the layers of the model, or of every stage",
                    layers.size(), stages));
  }
  return layers;
}

api::WorkChange work_change(const WorkChangeArguments& arguments, int layers) {
  api::WorkChange change{
      .frozen_layers = arguments.frozen_layers, .scales = {}, .recomputation = arguments.recomputation};
  for (const std::string& text : arguments.scales) change.scales.push_back(parse_layer_scale(text));
  if (arguments.dropped_weight_gradients > 0) {
    for (const auto& scale : api::dropped_weight_gradients(layers, arguments.dropped_weight_gradients)) {
      change.scales.push_back(scale);
    }
  }
  return change;
}

api::LayerScale parse_layer_scale(const std::string& text) {
  const auto [layers, factors] = split_at(text, '=');
  const auto [first_text, last_text] = split_at(layers, '-');
  const auto [time_text, energy_text] = split_at(factors, ',');
  const auto first = layer_number(first_text);
  const auto last = last_text.empty() ? first : layer_number(last_text);
  const auto time = parse_number(time_text);
  const auto energy = energy_text.empty() ? time : parse_number(energy_text);
  const bool has_all = first && last && *first <= *last && time && energy && *time > 0 && *energy > 0;
  if (!has_all || *time > api::kMaxWorkFactor || *energy > api::kMaxWorkFactor) {
    throw InputError(fmt::format("expected FIRST-LAST=TIME[,ENERGY] with factors above 0 and at most {}, not {}",
                                 api::kMaxWorkFactor, quote(text)));
  }
  return {.begin = *first, .end = *last + 1, .time_factor = *time, .energy_factor = *energy, .kind = {}};
}

namespace {

void require_free_order(const ScheduleArguments& arguments) {
  if (arguments.chunks) throw InputError("--virtual-stages: the search chooses the stages of each rank; leave it out");
  if (arguments.extra_activations) {
    throw InputError("--extra-activations: give --memory-limit, which holds for every order of the search");
  }
}

/// Bytes of activations belong to the layers that a rank has in the profile.
void require_countable_memory(const std::string& memory_limit, const joint::MemoryLimit& read) {
  if (memory_limit == "1f1b" || memory_limit == to_string(read)) return;
  throw InputError(
      fmt::format("--memory-limit {}: with --layers the bytes of a microbatch change with the layers of a rank; give "
                  "1f1b or numbers of microbatches",
                  memory_limit));
}

}  // namespace

void add_memory_limit_option(CLI::App& app, std::optional<std::string>& memory_limit) {
  app.add_option("--memory-limit", memory_limit,
                 "With --schedule auto or the policy envpipe: activations that fit into the memory of each rank, as "
                 "1f1b (the activations that 1F1B holds, the default), as a number of microbatches, the same on every "
                 "rank or one for each (8,8,6,4), or as "
                 "bytes (12GiB) where the profile has the column activation_bytes")
      ->type_name("1f1b|N|BYTES|N,N,...");
}

JointInput load_joint_input(const PipelineArguments& arguments, const std::optional<std::string>& memory_limit,
                            const std::optional<std::string>& layers) {
  require_given(arguments);
  require_free_order(arguments.schedule);
  const profile::ProfileFile file = load_profile(arguments.profile, arguments.units);
  JointInput input;
  input.profile_name = arguments.profile;
  joint::JointProblem& problem = input.problem;
  problem.profile = file.profile;
  problem.memory = joint::parse_memory_limit(memory_limit.value_or("1f1b"), file.columns.activation_bytes);
  input.columns = file.columns;
  input.switch_latency_s = file.switch_latency_s;
  require_trained(problem);
  if (arguments.shares.backward_split) {
    problem.profile = api::split_backward(problem.profile, *arguments.shares.backward_split);
  }
  problem.microbatches = *arguments.schedule.microbatches;
  const int ranks = problem.ranks();
  (void)most_activations(problem.memory, ranks, problem.microbatches,
                         1);  // says whether the limit is for so many ranks
  if (arguments.schedule.stages.value_or(ranks) != ranks) {
    throw InputError(fmt::format("the profile has {} stages and --stages says {}: the search needs one stage per rank",
                                 ranks, *arguments.schedule.stages));
  }
  if (layers) {
    if (memory_limit) require_countable_memory(*memory_limit, problem.memory);
    const profile::Partition given = partition_from_layers(*layers, ranks);
    input.free_layers = api::FreeLayers{layer_profile_of(problem.profile, given), given};
  }
  api::require_planning_memory(ranks, problem.microbatches, kMostChunks, available_memory_bytes());
  const BlockingPower blocking = blocking_power_of(arguments, file, ranks);
  problem.blocking_power_w = blocking.by_rank_w;
  input.predicted = predicted_rows_of(file.profile, file.predicted, problem.profile);
  problem.simulated = file.simulated;
  input.doubts = doubts_of(file, blocking, arguments.gpu_name, arguments.units);
  return input;
}

}  // namespace lowgear::cli
