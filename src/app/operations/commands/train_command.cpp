#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/operations/commands/rank_programs.h"
#include "app/operations/commands/run_checks.h"
#include "app/operations/commands/verbs.h"
#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/formats/yaml.h"
#include "client/rank/gpu_choice.h"
#include "client/rank/rank_environment.h"
#include "client/server/server_addresses.h"
#include "estimating/model/config_members.h"
#include "training/launcher/config/eadt_config.h"
#include "training/launcher/rank_processes.h"
#include "training/launcher/server/server_job.h"
#include "training/launcher/training_check.h"
#include "training/launcher/training_schedule.h"

namespace lowgear::operations {
namespace {

/// The options of `lowgear train` that are settings of the policy `envpipe`.
struct EnvPipeSettings {
  /// As the configuration has them: `energy.envpipe.type=uniform`.
  std::vector<std::string> settings;
};

struct Setting {
  const char* option;
  const char* member;  ///< of `energy.envpipe`
  const char* value;   ///< its name in help texts; FILE: a path
  const char* help;
};

constexpr auto kSettings = std::to_array<Setting>({
    {"--envpipe-config", "config", "FILE",
     "envpipe: read its settings from the member envpipe of this DeepSpeed configuration, as EnvPipe does; options of "
     "the command line override the file"},
    {"--envpipe-type", "type", "TYPE",
     "envpipe: clocks of the units: all at the highest (baseline), each stage at its clock of least energy (uniform), "
     "or uniform within an outer envelope at the highest clock (envelope, the default)"},
    {"--envpipe-scheduling", "scheduling", "ORDER",
     "envpipe: the order of --schedule (1f1b), or EnvPipe's own with more early forwards, as far as --memory-limit "
     "admits them (ours, the default)"},
    {"--envpipe-reconfig", "reconfig", "METHOD",
     "envpipe: how clocks rise on the path of waiting: never (default, EnvPipe's name for this), one unit per step "
     "(greedy), or all units with the lowest clock (balanced, also if this option is left out)"},
    {"--envpipe-threshold-scale", "threshold_scale", "NUMBER",
     "envpipe: a unit waits when receiving takes this many times the shortest receive of the first step (default 4)"},
    {"--envpipe-start-clock", "start_clock", "MHZ",
     "envpipe: highest clock that the policy uses (default: the GPUs'; EnvPipe's list for an A100 begins with 1350)"},
    {"--envpipe-lowest-clock", "lowest_clock", "MHZ",
     "envpipe: lowest clock that the policy uses (default: 0.6 times the highest)"},
    {"--envpipe-profile-step", "profile_step", "MHZ",
     "envpipe: distance between the clocks that the first steps try (default 90, EnvPipe's value for every GPU)"},
    {"--envpipe-raise-step", "raise_step", "MHZ",
     "envpipe: rise of a clock in one step of the reconfiguration; greedy raises it by three times as much (default "
     "30)"},
    {"--envpipe-transfer", "transfer_ms", "MS",
     "envpipe: time of a transfer between stages once both are ready, which is added to every measured wait (default "
     "1)"},
    {"--memory-limit", "memory_limit", "NUMBER|BYTES",
     "policy or schedule envpipe: number of microbatches whose activations fit into memory, or one number for each "
     "rank "
     "(8,8,6,4; default: those of 1F1B, so that its own order is 1F1B); with the policy also bytes (12GiB), which are "
     "divided by a microbatch's bytes, as the job measures them or the profile states them"},
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

/// `--envpipe-type`, `-scheduling`, `-reconfig`, `-threshold-scale`, `-start-clock`, `-lowest-clock`, `-transfer`,
/// `-config`, `-profile`, `-blocking-power`, `-log` and `--memory-limit`. Values are checked where the configuration is
/// read; paths are relative to the current folder. The settings must outlive `app`.
void add_envpipe_settings(CLI::App& app, EnvPipeSettings& settings) {
  for (const Setting& setting : kSettings) {
    app.add_option_function<std::string>(
           setting.option,
           [&settings, &setting](const std::string& text) { settings.settings.push_back(setting_text(setting, text)); },
           setting.help)
        ->type_name(setting.value);
  }
}

namespace fs = std::filesystem;

constexpr std::string_view kTrainer = "lowgear-trainer";

struct TrainArguments {
  std::string config;
  std::string plan;
  std::string recording;
  std::string metrics;
  std::string schedule;
  std::string gpus;
  std::string server;
  std::string adapt;
  std::string policy;
  EnvPipeSettings envpipe;
  std::optional<int> steps;
  std::vector<std::string> settings;
  bool json = false;
  bool dry_run = false;
  bool require_server = false;
};

/// The options as settings of the configuration; paths of the command line are relative to where it is given.
std::vector<std::string> settings_of(const TrainArguments& arguments) {
  std::vector<std::string> settings = arguments.settings;
  const auto set = [&settings](std::string_view name, const std::string& value) {
    if (!value.empty()) settings.push_back(fmt::format("{}={}", name, value));
  };
  const auto path = [](const std::string& text) {
    return text.empty() ? text : yaml_quoted(fs::absolute(text).string());
  };
  if (!arguments.server.empty()) {
    set("server.address", yaml_quoted(client::absolute_server_addresses(arguments.server)));
  }
  if (!arguments.adapt.empty()) set("adapt.techniques", fmt::format("[{}]", arguments.adapt));
  set("energy.policy", arguments.policy);
  settings.insert(settings.end(), arguments.envpipe.settings.begin(), arguments.envpipe.settings.end());
  set("energy.plan", path(arguments.plan));
  set("energy.recording", path(arguments.recording));
  set("metrics", path(arguments.metrics));
  const bool is_file = arguments.schedule.ends_with(".csv");
  set("schedule", is_file ? path(arguments.schedule) : arguments.schedule);
  if (arguments.steps) set("steps", fmt::to_string(*arguments.steps));
  return settings;
}

std::vector<std::string> trainer_arguments(const TrainArguments& arguments, const std::vector<std::string>& settings) {
  std::vector<std::string> words;
  if (arguments.json) words.emplace_back("--json");
  if (arguments.require_server) words.emplace_back("--require-server");
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  words.push_back(arguments.config);
  return words;
}

/// Only the trainer knows the devices of its libtorch.
void check_device(const TrainArguments& arguments, const std::vector<std::string>& settings, cli::Console& console) {
  launcher::RankCommand command = sibling_command(kTrainer);
  command.arguments = trainer_arguments(arguments, settings);
  command.arguments.emplace_back("--check-device");
  run_watched(command, {.ending = "ending"}, console);
}

std::string job_text(const launcher::TrainConfig& config, const schedule::Schedule& schedule) {
  return fmt::format("{} ranks (pp {}, dp {}, tp {}), {} with {} microbatches, {} steps of {} tokens\n",
                     config.parallel.world_size(), config.parallel.pp, config.parallel.dp, config.parallel.tp,
                     schedule.name, config.microbatches, config.steps, config.tokens_per_step());
}

void run_all_ranks(const TrainArguments& arguments, const std::vector<std::string>& settings, int ranks,
                   const std::string& job, cli::Console& console) {
  const RendezvousFolder rendezvous;
  launcher::RankCommand command = sibling_command(kTrainer);
  command.arguments = trainer_arguments(arguments, settings);
  command.world_size = ranks;
  command.threads = launcher::threads_per_rank(ranks);
  if (const char* run = std::getenv("LOWGEAR_RUN"); run == nullptr || *run == '\0') {
    command.environment["LOWGEAR_RUN"] = random_run("train");
  }
  command.environment["LOWGEAR_RENDEZVOUS"] = rendezvous.file().string();
  RankWatch watch{.ending = "stopping after this step; press Ctrl-C again to stop now"};
  // Within `lowgear run` that one tells servers of ranks that are gone.
  if (!process_environment()(kMarkVariable)) {
    watch.mark = rendezvous.file().string() + ".mark";
    command.environment[kMarkVariable] = watch.mark.string();
  }
  if (!arguments.gpus.empty()) command.environment["CUDA_VISIBLE_DEVICES"] = arguments.gpus;
  // Before the ranks have loaded libtorch and the data.
  if (!arguments.json) console.print("starting " + job);
  run_watched(command, watch, console);
}

/// The first of them; that of a job on simulated GPUs is of LOWGEAR_NVML.
client::RankGpu open_first_gpu(const std::string& gpus) {
  const Environment environment = [&gpus, process = process_environment()](std::string_view name) {
    return name == "CUDA_VISIBLE_DEVICES" && !gpus.empty() ? std::optional(gpus) : process(name);
  };
  return client::open_rank_gpu("", 0, environment);
}

/// Asked for here, once for all ranks: they must not run different orders.
std::vector<std::string> with_servers_order(std::vector<std::string> settings, const launcher::TrainConfig& config,
                                            const std::string& gpus, cli::Console& console) {
  constexpr std::chrono::seconds kPatience{3};
  const client::RankGpu gpu = open_first_gpu(gpus);
  launcher::ServedOrder order{.early_forwards = {}, .note = {}};
  if (gpu.gpu == nullptr) {
    order.note = fmt::format("the server has no profile: {}; a backward is assumed to take twice as long as a forward",
                             gpu.problem);
  } else {
    order = ask_order(config, gpu.gpu->identity().name, gpu.simulated(), kPatience);
  }
  console.note("schedule envpipe: " + order.note);
  if (order.early_forwards.empty()) return settings;
  settings.push_back(fmt::format("early_forwards=[{}]", fmt::join(order.early_forwards, ",")));
  return settings;
}

Json started_json(const launcher::TrainConfig& config, const schedule::Schedule& schedule) {
  return {{"ranks", config.parallel.world_size()},
          {"pp", config.parallel.pp},
          {"dp", config.parallel.dp},
          {"tp", config.parallel.tp},
          {"schedule", schedule.name},
          {"microbatches", config.microbatches},
          {"steps", config.steps},
          {"tokens_per_step", config.tokens_per_step()}};
}

/// No training starts from such a file: members without a counterpart would be ignored silently.
std::optional<cli::ExitCode> translate_foreign(const TrainArguments& arguments, cli::Console& console) {
  const std::string text = read_file(arguments.config, kMaxYamlBytes);
  if (!model::is_eadt_config(YamlView::parse(text, arguments.config))) return std::nullopt;
  const launcher::EadtTranslation translation = launcher::translate_eadt_config(text, arguments.config);
  if (arguments.json) {
    console.print_json(
        {{"config", translation.config}, {"reasons", translation.reasons}, {"steps", translation.steps}});
    return cli::ExitCode::bad_usage;
  }
  console.print(translation.config);
  for (const std::string& reason : translation.reasons) console.warn(reason);
  for (const std::string& step : translation.steps) console.note("next: " + step);
  console.error(
      "a configuration of EADT, with which lowgear train trains nothing; the settings above have the same meaning "
      "here: complete them and write them to train.yaml");
  return cli::ExitCode::bad_usage;
}

/// What is missing for plans, and a token that is no secret, one line each, before anything starts. Training does not
/// depend on an agent where a server has the plans; a plan of a file cannot be followed without.
void warn_of_needs(const launcher::TrainConfig& config, cli::Console& console) {
  if (config.server) warn_of_token(config.server->token_file.value_or(""), console);
  if (!config.plan && !config.step_clocks && !config.server) return;
  for (const std::string& line : missing_needs({.servers = {}, .agent = true, .recording = {}})) {
    if (config.plan) throw Error(fmt::format("{}; nothing was started, as --plan cannot be followed", line));
    if (config.step_clocks) throw Error(fmt::format("{}; nothing was started, as energy.steps needs it", line));
    console.warn(line);
  }
}

cli::ExitCode run_train(const TrainArguments& arguments, cli::Console& console) {
  if (const auto code = translate_foreign(arguments, console)) return *code;
  const std::vector<std::string> settings = settings_of(arguments);
  const launcher::TrainConfig config = launcher::read_train_config(arguments.config, settings);
  if (arguments.require_server && !config.server) {
    throw InputError("--require-server: no server is named; add --server ADDRESS");
  }
  const schedule::Schedule schedule = training_schedule(config);
  const Environment environment = process_environment();
  const bool one_of_many = is_one_rank_of_many(environment);
  if (!one_of_many) client::require_all_ranks_here(environment, config.parallel.world_size());
  if (!arguments.dry_run && one_of_many) {
    // The trainer trains on without a server whose token it cannot read.
    if (config.server) launcher::check_server_files(*config.server);
    if (client::job_rank_from_environment(environment).rank == 0) warn_of_needs(config, console);
    // A rank checks the files that it reads; files that other ranks write may be on other machines.
    become_program(kTrainer, trainer_arguments(arguments, settings));
  }
  check_training(config);
  if (!arguments.dry_run) {
    warn_of_needs(config, console);
    run_all_ranks(arguments,
                  has_servers_order(config) ? with_servers_order(settings, config, arguments.gpus, console) : settings,
                  config.parallel.world_size(), job_text(config, schedule), console);
    return cli::ExitCode::ok;
  }
  for (const std::string& doubt : profile_doubts_of(config)) console.warn(doubt);
  check_device(arguments, settings, console);
  if (const std::string note = launcher::starting_note(config); !note.empty()) console.note(note);
  if (arguments.json) {
    console.print_json(started_json(config, schedule));
  } else {
    console.print("would start " + job_text(config, schedule));
  }
  return cli::ExitCode::ok;
}

}  // namespace

cli::VerbAction declare_train(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  app.add_option("config", arguments->config, "Configuration of the job; docs/training.md describes it")
      ->type_name("CONFIG.yaml")
      ->required();
  app.add_option("--plan", arguments->plan, "Plan whose clocks are followed: plans/NNNNN.json of lowgear plan")
      ->type_name("FILE");
  app.add_option("--record,--recording", arguments->recording,
                 "Folder in which every rank records the times of its units and its energy")
      ->type_name("DIR");
  app.add_option("--metrics", arguments->metrics, "File that gets one line of JSON per step")->type_name("FILE");
  app.add_option("--schedule", arguments->schedule,
                 "Pipeline schedule, instead of the configuration's; see lowgear show")
      ->type_name("NAME");
  app.add_option(
         "--server", arguments->server,
         "Address of the server whose plans are followed (lowgear serve): http://host:port, https://host:port or "
         "unix:/path; several, separated by commas, if it may move")
      ->type_name("ADDRESS");
  app.add_flag("--require-server", arguments->require_server,
               "Fail when the server has not accepted every rank within 10 s; without this option training continues "
               "without a server, with a warning");
  app.add_option("--adapt", arguments->adapt,
                 "Techniques that change the job while it trains, as the section adapt of the configuration defines "
                 "them: freezing, "
                 "slowdown, or both separated by a comma")
      ->type_name("LIST");
  app.add_option("--policy", arguments->policy,
                 "Policy that sets clocks by what the running job measures: envpipe (EnvPipe's profiling and "
                 "reconfiguration); the plans of other policies come from lowgear plan, and are followed with --plan. "
                 "Example: --policy envpipe --envpipe-reconfig greedy --metrics envpipe.jsonl")
      ->type_name("NAME");
  add_envpipe_settings(app, arguments->envpipe);
  app.add_option("--gpus", arguments->gpus, "GPUs of the ranks, in their order: 0,1,2,3 or UUIDs")->type_name("LIST");
  cli::add_whole_number(
      app, "--steps", {.low = 1, .high = 1'000'000'000}, [arguments](int steps) { arguments->steps = steps; },
      "Number of steps, instead of the configuration's");
  app.add_option("--set", arguments->settings,
                 "Override a setting of the configuration, as optimizer.learning_rate=1e-4; may be repeated")
      ->type_name("PATH=VALUE");
  app.add_flag(
      "--dry-run", arguments->dry_run,
      "Check the configuration and the files and folders that it names, and print the commands that would run");
  cli::add_json_flag(app, arguments->json);
  cli::group_options(
      app, "Policy envpipe",
      {"--envpipe-config", "--envpipe-type", "--envpipe-scheduling", "--envpipe-reconfig", "--envpipe-threshold-scale",
       "--envpipe-start-clock", "--envpipe-lowest-clock", "--envpipe-profile-step", "--envpipe-raise-step",
       "--envpipe-transfer", "--memory-limit", "--envpipe-profile", "--envpipe-blocking-power", "--envpipe-log"});
  return [arguments](cli::Console& console) { return run_train(*arguments, console); };
}

}  // namespace lowgear::operations
