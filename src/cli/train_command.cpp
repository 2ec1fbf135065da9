#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "launcher/rank_processes.h"
#include "launcher/training_schedule.h"

namespace lowgear {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTrainer = "lowgear-trainer";

struct TrainArguments {
  std::string config;
  std::string plan;
  std::string recording;
  std::string metrics;
  std::string schedule;
  std::string gpus;
  std::optional<int> steps;
  std::vector<std::string> settings;
  bool json = false;
  bool dry_run = false;
};

/// The options as settings of the configuration; paths of the command line are relative to where it is given.
std::vector<std::string> settings_of(const TrainArguments& arguments) {
  std::vector<std::string> settings = arguments.settings;
  const auto set = [&settings](std::string_view name, const std::string& value) {
    if (!value.empty()) settings.push_back(fmt::format("{}={}", name, value));
  };
  const auto path = [](const std::string& text) { return text.empty() ? text : fs::absolute(text).string(); };
  set("energy.plan", path(arguments.plan));
  set("energy.recording", path(arguments.recording));
  set("metrics", path(arguments.metrics));
  set("schedule", arguments.schedule);
  if (arguments.steps) set("steps", fmt::to_string(*arguments.steps));
  return settings;
}

/// The program beside this one, as both are installed and built together.
fs::path trainer_program() {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  fs::path program = own.parent_path() / kTrainer;
  if (!fs::exists(program)) {
    throw InputError(fmt::format("{} is not there: this build has no trainer; build with libtorch", program.string()));
  }
  return program;
}

/// A file in which the ranks find each other, in a folder that nobody else may write to.
class RendezvousFolder {
 public:
  RendezvousFolder() {
    std::string name = (fs::temp_directory_path() / "lowgear-train-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error(fmt::format("{}: cannot be made", name));
    path_ = name;
  }
  ~RendezvousFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;
  [[nodiscard]] fs::path file() const { return path_ / "rendezvous"; }

 private:
  fs::path path_;
};

/// Whether a signal has asked the program to end; keeps which.
class EndRequest {
 public:
  [[nodiscard]] bool asked() {
    try {
      throw_if_interrupted();
    } catch (const Interrupted& interrupted) {
      interrupted_ = interrupted;
    }
    return interrupted_.has_value();
  }
  void rethrow() const {
    if (interrupted_) throw Interrupted(*interrupted_);
  }

 private:
  std::optional<Interrupted> interrupted_;
};

ExitCode run_train(const TrainArguments& arguments, Console& console) {
  const std::vector<std::string> settings = settings_of(arguments);
  const TrainConfig config = read_train_config(arguments.config, settings);
  const Schedule schedule = training_schedule(config);
  const int ranks = config.parallel.world_size();
  if (arguments.dry_run) {
    console.print(
        fmt::format("would start {} ranks (pp {}, dp {}, tp {}), {} with {} microbatches, {} steps of {} tokens\n",
                    ranks, config.parallel.pp, config.parallel.dp, config.parallel.tp, schedule.name,
                    config.microbatches, config.steps, config.tokens_per_step()));
    return ExitCode::ok;
  }
  const RendezvousFolder rendezvous;
  RankCommand command;
  command.program = trainer_program();
  if (arguments.json) command.arguments.emplace_back("--json");
  for (const std::string& setting : settings) command.arguments.insert(command.arguments.end(), {"--set", setting});
  command.arguments.push_back(arguments.config);
  command.world_size = ranks;
  command.threads = threads_per_rank(ranks);
  command.environment["LOWGEAR_RENDEZVOUS"] = rendezvous.file().string();
  if (!arguments.gpus.empty()) command.environment["CUDA_VISIBLE_DEVICES"] = arguments.gpus;

  EndRequest end;
  const auto failure = run_ranks(
      command, [&console](int rank, std::string_view line) { console.warn(fmt::format("rank {}: {}", rank, line)); },
      [&end] { return end.asked(); });
  end.rethrow();
  if (!failure) return ExitCode::ok;
  const std::string message = fmt::format("rank {} {}{}{}", failure->rank, failure->how,
                                          failure->why.empty() ? "" : ": ", printable(failure->why));
  if (failure->exit_code == static_cast<int>(ExitCode::bad_usage)) throw InputError(message);
  throw Error(message);
}

}  // namespace

VerbAction declare_train(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  app.add_option("config", arguments->config, "The job, as docs/training.md describes it")
      ->type_name("CONFIG.yaml")
      ->required();
  app.add_option("--plan", arguments->plan, "Clocks to follow: a plan of lowgear plan (plans/NNNNN.json)")
      ->type_name("FILE");
  app.add_option("--recording", arguments->recording, "Folder in which each rank records its units and its energy")
      ->type_name("DIR");
  app.add_option("--metrics", arguments->metrics, "File for one JSON line a step")->type_name("FILE");
  app.add_option("--schedule", arguments->schedule,
                 "Schedule in the place of the configuration's; see lowgear schedule")
      ->type_name("NAME");
  app.add_option("--gpus", arguments->gpus, "GPUs of the ranks, in their order: 0,1,2,3 or UUIDs")->type_name("LIST");
  add_whole_number(
      app, "--steps", {.low = 1, .high = 1'000'000'000}, [arguments](int steps) { arguments->steps = steps; },
      "Steps in the place of the configuration's");
  app.add_option("--set", arguments->settings,
                 "Any setting of the configuration: optimizer.learning_rate=1e-4; repeatable")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--dry-run", arguments->dry_run, "Check everything and say what would be started");
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_train(*arguments, console); };
}

}  // namespace lowgear
