#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/process.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/terminal/table.h"
#include "app/operations/commands/arm_input.h"
#include "app/operations/commands/experiment_run.h"
#include "app/operations/commands/policy_experiment.h"
#include "app/operations/commands/verbs.h"
#include "app/operations/text/arm_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"

namespace lowgear::operations {
namespace {

namespace fs = std::filesystem;

struct ExperimentArguments {
  std::string file;
  std::string out;
  bool dry_run = false;
  bool json = false;

  [[nodiscard]] fs::path folder() const {
    return out.empty() ? fs::path("out") / fs::path(file).stem() : fs::path(out);
  }
};

/// The order of the turns, without running any.
void print_order(const ExperimentArguments& arguments, const experiment::ExperimentRecord& record,
                 cli::Console& console) {
  cli::Table table({{"turn"}, {"block"}, {"seed"}, {"arm", cli::Table::Align::left}, {"", cli::Table::Align::left}});
  Json json = Json::array();
  for (const experiment::Turn& turn : record.turns) {
    const bool finished = is_finished(arguments.folder(), turn);
    const std::string& arm = record.arms[turn.arm];
    const std::string remark = turn.dropped ? "does not count" : "";
    table.add_row({fmt::to_string(turn.number + 1), fmt::to_string(turn.block), fmt::to_string(turn.seed), arm,
                   finished ? remark + (remark.empty() ? "finished" : ", finished") : remark});
    json.push_back({{"turn", turn.number},
                    {"block", turn.block},
                    {"seed", turn.seed},
                    {"arm", arm},
                    {"dropped", turn.dropped},
                    {"finished", finished}});
  }
  if (arguments.json) {
    console.print_json({{"out", arguments.folder().string()}, {"turns", std::move(json)}});
  } else {
    console.print(table.text() + fmt::format("would write to {}\n", arguments.folder().string()));
  }
}

/// Jobs and arms, without planning any.
void print_arms(const ExperimentArguments& arguments, const evaluation::PolicyExperiment& file, cli::Console& console) {
  cli::Table table(
      {{"job", cli::Table::Align::left}, {"arm", cli::Table::Align::left}, {"policy", cli::Table::Align::left}});
  Json json = Json::array();
  for (const evaluation::PolicyJob& job : file.jobs) {
    for (const evaluation::PolicyArm& arm : file.arms) {
      table.add_row({job.name, arm.name, arm.policy});
      json.push_back({{"job", job.name}, {"arm", arm.name}, {"policy", arm.policy}});
    }
  }
  if (arguments.json) {
    console.print_json({{"out", arguments.folder().string()}, {"replays", std::move(json)}});
  } else {
    console.print(table.text() + fmt::format("would write to {}\n", arguments.folder().string()));
  }
}

/// Policies on estimated jobs: nothing is run.
cli::ExitCode run_policies(const ExperimentArguments& arguments, const std::string& command, cli::Console& console) {
  const PolicyExperimentInput input = read_policy_experiment(arguments.file);
  if (arguments.dry_run) {
    print_arms(arguments, input.file, console);
    return cli::ExitCode::ok;
  }
  std::optional<cli::ProgressBar> progress(std::in_place);
  const std::vector<evaluation::ReplayedJob> jobs = run_policy_experiment(input, *progress);
  progress.reset();
  const fs::path folder = arguments.folder();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_input_error({folder.string(), 0, 0}, fmt::format("cannot be made: {}", error.message()));
  const Json json = policy_experiment_json(input.file, jobs);
  const fs::path page = folder / "report.html";
  write_file_atomically(folder / "report.json", json.dump(1) + '\n');
  write_file_atomically(folder / kReplayedResults, policy_experiment_csv(input.file, jobs));
  write_file_atomically(page, render_html_page(policy_experiment_page(input.file, jobs, command)));
  for (const Json& note : json["notes"]) console.warn(note.get<std::string>());
  if (arguments.json) {
    console.print_json(json);
  } else {
    console.print(policy_experiment_text(input.file, jobs) + fmt::format("\nThe report is {}\n", page.string()));
  }
  return cli::ExitCode::ok;
}

void report(const ExperimentArguments& arguments, const std::string& command, cli::Console& console) {
  const fs::path folder = arguments.folder();
  ArmInput input = load_experiment(folder);
  const experiment::ArmComparison comparison = compare_arms(std::move(input.arms), input.options);
  for (const std::string& warning : comparison.warnings) console.warn(warning);
  const Json json = arms_json(comparison);
  write_file_atomically(folder / "report.json", json.dump(1) + '\n');
  const fs::path page = folder / "report.html";
  write_file_atomically(page, render_html_page(arms_page(comparison, command)));
  if (arguments.json) {
    console.print_json(json);
  } else {
    console.print(arms_text(comparison) + fmt::format("\nThe report is {}\n", page.string()));
  }
}

cli::ExitCode run_experiment_verb(const ExperimentArguments& arguments, const std::string& command,
                                  cli::Console& console) {
  if (evaluation::compares_policies(read_file(arguments.file), arguments.file)) {
    return run_policies(arguments, command, console);
  }
  const ExperimentInput input = read_experiment(arguments.file);
  if (arguments.dry_run) {
    print_order(arguments, input.record, console);
    return cli::ExitCode::ok;
  }
  try {
    run_experiment(input, arguments.folder(), [&console](std::string_view line) { console.note(line); });
  } catch (const cli::Interrupted&) {
    console.note("ended; the same command continues after the finished runs");
    throw;
  }
  report(arguments, command, console);
  return cli::ExitCode::ok;
}

}  // namespace

cli::VerbAction declare_experiment(CLI::App& app) {
  auto arguments = std::make_shared<ExperimentArguments>();
  app.add_option("file", arguments->file,
                 "The experiment: arms and seeds of a training, or policies and jobs to estimate; docs/experiments.md "
                 "describes it")
      ->type_name("FILE.yaml")
      ->required();
  app.add_option("--out", arguments->out,
                 "Folder for runs and report (default: out/NAME of the file). Runs that are finished there are not "
                 "repeated")
      ->type_name("DIR");
  app.add_flag("--dry-run", arguments->dry_run, "Check everything, and print the order of the runs");
  cli::add_json_flag(app, arguments->json);
  return [arguments, &app](cli::Console& console) {
    return run_experiment_verb(*arguments, cli::command_line(app), console);
  };
}

}  // namespace lowgear::operations
