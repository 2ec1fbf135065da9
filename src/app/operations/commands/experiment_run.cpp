#include "app/operations/commands/experiment_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <chrono>
#include <optional>
#include <system_error>
#include <thread>

#include "app/cli/terminal/process.h"
#include "app/operations/commands/simulated_node.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/figure_text.h"
#include "planning/plan/plan_json.h"
#include "report/experiment/run_record.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/training_check.h"
#include "training/launcher/training_schedule.h"

namespace lowgear::operations {
namespace {

namespace fs = std::filesystem;
namespace names = experiment::experiment_file_name;
using experiment::Turn;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRunPoll{50};
constexpr const char* kLog = "log.txt";
constexpr std::string_view kTurnFormat = "lowgear.experiment_turn/1";
/// A run on simulated GPUs is repeated where this machine was too busy for it.
constexpr int kMostAttempts = 3;

/// A text in YAML's double quotes: paths may hold anything.
std::string quoted(const fs::path& path) {
  std::string result = "\"";
  for (const char c : path.string()) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

/// Nothing of one run is left for the next.
std::vector<std::string> settings_of(const experiment::ExperimentArm& arm) {
  std::vector<std::string> settings = arm.settings;
  settings.insert(settings.end(), {"checkpoint=", "export=", "metrics=", "energy.recording="});
  return settings;
}

std::string contents_of(const launcher::TrainConfig& config) {
  std::string contents;
  if (config.plan) contents += read_file(*config.plan, plan::kMaxPlanBytes);
  if (config.step_clocks) contents += read_file(config.step_clocks->profile) + read_file(config.step_clocks->work);
  if (config.schedule.ends_with(".csv")) contents += read_file(config.schedule);
  return contents;
}

/// One experiment at a time writes into a folder.
class FolderInUse {
 public:
  explicit FolderInUse(const fs::path& folder) {
    const fs::path path = folder / "lock";
    file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file_) throw_input_error({path.string(), 0, 0}, "cannot be written", "name another folder with --out");
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return;
    throw_input_error({folder.string(), 0, 0}, "another lowgear runs experiment runs in this folder",
                      "wait for it, or name another folder with --out");
  }

 private:
  FileDescriptor file_;
};

/// Begins or continues the experiment in this folder.
void prepare_folder(const experiment::ExperimentRecord& record, const fs::path& out) {
  const fs::path file = out / names::kRecord;
  std::error_code error;
  if (fs::exists(file, error)) {
    if (experiment::read_experiment_record(read_file(file), file.string()).inputs == record.inputs) return;
    throw_input_error({out.string(), 0, 0}, "holds runs of this experiment with other settings, plans or seeds",
                      "remove the folder, or name another one with --out");
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(out)) {
    if (entry.path().filename() == "lock") continue;
    throw_input_error({out.string(), 0, 0}, "is not empty and holds no experiment", "name another folder with --out");
  }
  write_file_atomically(file, write_experiment_record(record));
}

std::string last_line(const fs::path& log) {
  std::string text = read_file(log, kMaxFileBytes);
  while (text.ends_with('\n')) text.pop_back();
  const std::size_t start = text.find_last_of("\n\r");
  return printable(start == std::string::npos ? text : text.substr(start + 1));
}

/// Runs turns one after the other.
class TurnRunner {
 public:
  TurnRunner(const ExperimentInput& input, const fs::path& out) : input_(&input), out_(out) {
    if (input.file.simulated_gpus) node_.emplace(*input.file.simulated_gpus, out / "agent.log");
  }

  /// Returns whether the run is valid.
  [[nodiscard]] bool attempt(const Turn& turn) const {
    const fs::path folder = out_ / names::turn(turn.number);
    fs::remove_all(folder);
    fs::create_directories(folder);
    ChildProcess train(command_of(turn, folder));
    while (!train.status()) {
      cli::throw_if_interrupted();
      std::this_thread::sleep_for(kRunPoll);
    }
    if (*train.status() != 0) fail(turn, *train.status());
    const fs::path metrics = folder / names::kMetrics;
    return experiment::read_metrics(read_file(metrics, kMaxFileBytes), metrics.string()).invalid.empty();
  }

  void finish(const Turn& turn, int attempts) const {
    const Json json = {{"format", kTurnFormat}, {"turn", turn.number}, {"arm", input_->file.arms[turn.arm].name},
                       {"seed", turn.seed},     {"block", turn.block}, {"attempts", attempts}};
    write_file_atomically(out_ / names::turn(turn.number) / names::kFinished, json.dump(1) + '\n');
  }

 private:
  [[nodiscard]] ChildCommand command_of(const Turn& turn, const fs::path& folder) const {
    std::vector<std::string> settings = settings_of(input_->file.arms[turn.arm]);
    settings.push_back(fmt::format("seed={}", turn.seed));
    settings.push_back(fmt::format("metrics={}", quoted(fs::absolute(folder / names::kMetrics))));
    if (input_->file.recording) {
      settings.push_back(fmt::format("energy.recording={}", quoted(fs::absolute(folder / names::kRecording))));
    }
    ChildCommand command{.program = fs::read_symlink("/proc/self/exe"),
                         .arguments = {"train", input_->train.string()},
                         .environment = node_ ? node_->environment() : std::map<std::string, std::string>{},
                         .output = folder / kLog};
    for (const std::string& setting : settings) command.arguments.insert(command.arguments.end(), {"--set", setting});
    return command;
  }

  [[noreturn]] void fail(const Turn& turn, int status) const {
    const fs::path log = out_ / names::turn(turn.number) / kLog;
    throw Error(
        fmt::format("turn {} ({}, seed {}) ended with {}: {}; its log is {}; the same command continues after "
                    "the finished runs",
                    turn.number, input_->file.arms[turn.arm].name, turn.seed, status, last_line(log), log.string()));
  }

  const ExperimentInput* input_;
  fs::path out_;
  std::optional<SimulatedNode> node_;
};

}  // namespace

ExperimentInput read_experiment(const fs::path& path) {
  const std::string text = read_file(path);
  ExperimentInput input;
  std::vector<std::string> contents{text};
  const auto check_arm = [&](const experiment::ExperimentFile& file, const experiment::ExperimentArm& arm) {
    input.train = fs::absolute(path).parent_path() / file.train;
    const launcher::TrainConfig config = launcher::read_train_config(input.train, settings_of(arm));
    (void)launcher::training_schedule(config);
    launcher::check_training(config);
    if (file.simulated_gpus && !config.simulated_gpu) {
      throw InputError(
          fmt::format("{} has no section simulated_gpu, which simulated_gpus needs", input.train.string()));
    }
    contents.push_back(contents_of(config));
  };
  input.file = experiment::parse_experiment(text, path.string(), check_arm);
  if (input.file.simulated_gpus) (void)simulated_nvml();
  contents.push_back(read_file(input.train));
  input.record.inputs = experiment::fingerprint_of(contents);
  for (const experiment::ExperimentArm& arm : input.file.arms) input.record.arms.push_back(arm.name);
  input.record.turns = turns_of(input.file);
  input.record.report = input.file.report;
  return input;
}

bool is_finished(const fs::path& out, const Turn& turn) {
  std::error_code error;
  return fs::exists(out / names::turn(turn.number) / names::kFinished, error);
}

void run_experiment(const ExperimentInput& input, const fs::path& out,
                    const std::function<void(std::string_view)>& note) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error) throw_input_error({out.string(), 0, 0}, fmt::format("cannot be made: {}", error.message()));
  const FolderInUse in_use(out);
  prepare_folder(input.record, out);
  std::vector<Turn> left;
  for (const Turn& turn : input.record.turns) {
    if (!is_finished(out, turn)) left.push_back(turn);
  }
  if (left.empty()) return;
  const TurnRunner runner(input, out);
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < left.size(); ++i) {
    const Turn& turn = left[i];
    const double passed_s = std::chrono::duration<double>(Clock::now() - start).count();
    note(fmt::format("turn {} of {}: {}, seed {}{}{}", turn.number + 1, input.record.turns.size(),
                     input.record.arms[turn.arm], turn.seed, turn.dropped ? ", of a block that does not count" : "",
                     i == 0 ? ""
                            : fmt::format("; about {} left", duration_text(passed_s / static_cast<double>(i) *
                                                                           static_cast<double>(left.size() - i)))));
    int attempts = 1;
    for (; !runner.attempt(turn) && attempts < kMostAttempts; ++attempts) {
      note("the machine was too busy for simulated GPUs; the turn is repeated");
    }
    runner.finish(turn, attempts);
  }
}

}  // namespace lowgear::operations
