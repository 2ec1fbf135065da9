#include "app/operations/commands/arm_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/cli/arguments/profile_input.h"
#include "app/operations/commands/policy_experiment.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "report/experiment/experiment_file.h"

namespace lowgear::operations {
namespace {

namespace fs = std::filesystem;
namespace names = experiment::experiment_file_name;

/// Clocks and temperatures of a run that was recorded; of the recorded part, if that is not all.
void add_recording(const fs::path& folder, experiment::RunRecord& run) {
  const experiment::RunRecord recorded =
      experiment::recorded_run(cli::load_recordings({folder.string()}, cli::MarkedInvalid::accepted), folder.string());
  run.sm_clock_mhz = recorded.sm_clock_mhz;
  run.temperature_c = recorded.temperature_c;
}

/// The parts of `NAME=RUN,RUN`. A path that exists as it is may contain commas.
std::pair<std::string, std::vector<std::string>> parts_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
    throw InputError(fmt::format("--arm {}: write NAME=RUN, or NAME=RUN,RUN", quote(text)));
  }
  std::string rest = text.substr(equals + 1);
  std::vector<std::string> paths;
  std::error_code error;
  if (fs::exists(rest, error)) return {text.substr(0, equals), {rest}};
  for (std::size_t comma = rest.find(','); comma != std::string::npos; comma = rest.find(',')) {
    paths.push_back(rest.substr(0, comma));
    rest.erase(0, comma + 1);
  }
  paths.push_back(rest);
  return {text.substr(0, equals), paths};
}

experiment::Arm& arm_named(ArmInput& input, const std::string& name) {
  const auto found = std::ranges::find(input.arms, name, &experiment::Arm::name);
  return found != input.arms.end() ? *found : input.arms.emplace_back(experiment::Arm{name, {}});
}

/// Of one run, which joins no other arm.
experiment::Arm& new_arm(ArmInput& input, const std::string& name) {
  if (std::ranges::find(input.arms, name, &experiment::Arm::name) != input.arms.end()) {
    throw InputError(fmt::format("{}: another arm has this name; name each run once, or name its arm: --arm NAME={}",
                                 quote(name), name));
  }
  return input.arms.emplace_back(experiment::Arm{name, {}});
}

/// "a" for runs/a.jsonl; the whole path where another of `all`, or a named arm, has the same name.
std::string short_name(const std::string& path, const std::vector<std::string>& all,
                       const std::vector<std::string>& named) {
  const auto name_of = [](const std::string& run) {
    const fs::path file(run.ends_with('/') ? run.substr(0, run.size() - 1) : run);
    return fs::is_directory(file) ? file.filename().string() : file.stem().string();
  };
  const std::string name = name_of(path);
  const auto same = std::ranges::count_if(all, [&](const std::string& other) { return name_of(other) == name; });
  const bool is_taken = std::ranges::any_of(named, [&](const std::string& arm) { return arm.starts_with(name + '='); });
  return same == 1 && !is_taken && !name.empty() && name != "." && name != ".." ? name : path;
}

}  // namespace

RunPath kind_of_run(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (fs::exists(path / names::kRecord, error)) return RunPath::experiment;
    if (fs::exists(path / names::kMetrics, error)) return RunPath::run_folder;
    if (fs::exists(path / kReplayedResults, error)) return RunPath::replayed;
    return cli::is_recording(path) ? RunPath::recording : RunPath::none;
  }
  return fs::exists(path, error) ? RunPath::metrics : RunPath::none;
}

experiment::RunRecord load_run(const fs::path& path, std::optional<double> tokens_per_iteration) {
  switch (kind_of_run(path)) {
    case RunPath::metrics:
      return experiment::read_metrics(read_file(path, kMaxFileBytes), path.string());
    case RunPath::run_folder: {
      const fs::path metrics = path / names::kMetrics;
      experiment::RunRecord run = experiment::read_metrics(read_file(metrics, kMaxFileBytes), metrics.string());
      const fs::path recording = path / names::kRecording;
      std::error_code error;
      if (fs::is_directory(recording, error)) add_recording(recording, run);
      return run;
    }
    case RunPath::recording: {
      experiment::RunRecord run =
          experiment::recorded_run(cli::load_recordings({path.string()}, cli::MarkedInvalid::accepted), path.string());
      return tokens_per_iteration ? with_tokens(std::move(run), *tokens_per_iteration) : run;
    }
    case RunPath::experiment:
      throw_input_error({path.string(), 0, 0}, "is an experiment with several arms",
                        "name it by itself, without --arm");
    case RunPath::replayed:
      throw_input_error({path.string(), 0, 0}, "is of an experiment on estimated jobs, which ran none",
                        "its report.html has the comparison; lowgear runs experiment writes that again");
    case RunPath::none:
      break;
  }
  require_no_address(path);
  std::error_code error;
  throw_input_error({path.string(), 0, 0}, fs::exists(path, error) ? "is no run" : "no such file or folder",
                    "name a metrics file of lowgear train, a folder with metrics.jsonl, a recording, an experiment, or "
                    "a folder of lowgear plan alone");
}

ArmInput load_experiment(const fs::path& folder) {
  const fs::path file = folder / names::kRecord;
  const experiment::ExperimentRecord record = experiment::read_experiment_record(read_file(file), file.string());
  ArmInput input{.arms = {}, .options = record.report};
  for (const std::string& name : record.arms) input.arms.push_back({name, {}});
  for (const experiment::Turn& turn : record.turns) {
    const fs::path run = folder / names::turn(turn.number);
    std::error_code error;
    if (turn.dropped || !fs::exists(run / names::kFinished, error)) continue;
    input.arms[turn.arm].runs.push_back({load_run(run, std::nullopt), turn.block, turn.seed});
  }
  return input;
}

ArmInput load_arms(const std::vector<std::string>& runs, const std::vector<std::string>& named,
                   std::optional<double> tokens_per_iteration) {
  ArmInput input;
  for (const std::string& text : named) {
    const auto [name, paths] = parts_of(text);
    for (const std::string& path : paths) {
      arm_named(input, name).runs.push_back({load_run(path, tokens_per_iteration), {}, {}});
    }
  }
  for (const std::string& path : runs) {
    if (kind_of_run(path) != RunPath::experiment) {
      new_arm(input, short_name(path, runs, named)).runs.push_back({load_run(path, tokens_per_iteration), {}, {}});
      continue;
    }
    if (runs.size() + named.size() > 1) {
      throw_input_error({path, 0, 0}, "is an experiment, which is reported by itself",
                        "name its runs one by one to compare them with others");
    }
    return load_experiment(path);
  }
  return input;
}

}  // namespace lowgear::operations
