#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/rank_programs.h"
#include "app/cli/commands/verbs.h"
#include "base/core/error.h"
#include "control/client/rank/rank_environment.h"

namespace lowgear::cli {
namespace {

namespace fs = std::filesystem;

struct RunArguments {
  std::string server;
  std::string plan;
  std::string recording;
  std::optional<double> slowdown_pct;
  std::vector<std::string> command;
  bool dry_run = false;
};

/// A variable of this process; empty where it is not set.
std::string environment_text(std::string_view name) { return client::process_environment()(name).value_or(""); }

/// Where the Python package may be, as seen from the folder of this program: in the source of a build, or installed
/// below the same prefix by a package, by pip or by `pip --target`.
std::vector<fs::path> package_folders() {
  const fs::path own = program_folder();
  std::vector<fs::path> folders{own / "../../../python/lowgear", own / "../lowgear"};
  std::error_code unknown;
  for (const std::string_view library : {"../lib", "../lib64"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(own / library, unknown)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      folders.push_back(entry.path() / "site-packages/lowgear");
      folders.push_back(entry.path() / "dist-packages/lowgear");
    }
  }
  return folders;
}

/// The folder of that package's sitecustomize.py.
fs::path site_folder() {
  for (const fs::path& folder : package_folders()) {
    std::error_code unknown;
    if (fs::exists(folder / "site/sitecustomize.py", unknown)) return (folder / "site").lexically_normal();
  }
  throw InputError(
      fmt::format("Lowgear's Python package is not there, neither installed below {} nor in a source tree; "
                  "install python3-lowgear, or the wheel",
                  program_folder().parent_path().string()));
}

/// The library of the same build or prefix; empty where the system knows where it is, or a variable already says.
fs::path library_file() {
  const fs::path library = (program_folder() / "../lib/liblowgear.so.1").lexically_normal();
  std::error_code unknown;
  return environment_text("LOWGEAR_LIBRARY").empty() && fs::exists(library, unknown) ? library : fs::path();
}

/// A plan, or an output folder of `lowgear plan`.
std::string checked_plan(const std::string& name) {
  std::error_code unknown;
  if (fs::is_regular_file(name, unknown) || fs::exists(fs::path(name) / "plans.csv", unknown)) {
    return fs::absolute(name).string();
  }
  throw InputError(fmt::format("--plan: {} is neither a plan nor an output folder of lowgear plan", name));
}

/// Whether the command is one part of a start on several machines, which have to agree on its name.
bool is_part_of_many(const std::vector<std::string>& command) {
  return std::any_of(command.begin(), command.end(), [](std::string_view word) {
    return word.starts_with("--nnodes") || word.starts_with("--rdzv") || word.starts_with("--node_rank") ||
           word.starts_with("--node-rank");
  });
}

/// What the command finds set besides what this program finds.
std::map<std::string, std::string> variables_of(const RunArguments& arguments) {
  std::map<std::string, std::string> variables;
  const auto set = [&variables](const char* name, const std::string& value) {
    if (!value.empty()) variables[name] = value;
  };
  set("LOWGEAR_SERVER", arguments.server);
  if (!arguments.plan.empty()) set("LOWGEAR_PLAN", checked_plan(arguments.plan));
  if (!arguments.recording.empty()) set("LOWGEAR_RECORDING", fs::absolute(arguments.recording).string());
  if (arguments.slowdown_pct) set("LOWGEAR_SLOWDOWN", fmt::format("{}", *arguments.slowdown_pct));
  set("LOWGEAR_LIBRARY", library_file().string());
  // Slurm and torchrun's --rdzv-id name a start by themselves.
  if (!arguments.server.empty() && environment_text("LOWGEAR_RUN").empty() &&
      environment_text("SLURM_JOB_ID").empty() && !is_part_of_many(arguments.command)) {
    set("LOWGEAR_RUN", random_run("run"));
  }
  const std::string path = environment_text("PYTHONPATH");
  set("PYTHONPATH", site_folder().string() + (path.empty() ? "" : ":" + path));
  return variables;
}

void check_asked(const RunArguments& arguments) {
  const bool asked = !arguments.server.empty() || !arguments.plan.empty() || !arguments.recording.empty();
  const auto is_set = [](const char* name) { return !environment_text(name).empty(); };
  if (!asked && !is_set("LOWGEAR_SERVER") && !is_set("LOWGEAR_PLAN") && !is_set("LOWGEAR_RECORDING")) {
    throw InputError("nothing to do for the command; add --server ADDRESS, --plan DIR or --record DIR");
  }
  if (!arguments.server.empty() && !arguments.plan.empty()) {
    throw InputError("--server and --plan: plans come from one of them");
  }
}

/// Becomes the command, so that its exit status, signals and terminal are its own.
[[noreturn]] void become_command(const std::vector<std::string>& command,
                                 const std::map<std::string, std::string>& variables) {
  std::signal(SIGPIPE, SIG_DFL);  // this program ignores it
  const std::string problem = replace_process(command, variables);
  throw InputError(fmt::format("{}: cannot be started: {}", command.front(), problem));
}

ExitCode run_attached(const RunArguments& arguments, Console& console) {
  check_asked(arguments);
  const std::map<std::string, std::string> variables = variables_of(arguments);
  if (!arguments.dry_run) become_command(arguments.command, variables);
  std::string text;
  for (const auto& [name, value] : variables) text += fmt::format("{}={}\n", name, value);
  for (const std::string& word : arguments.command)
    text += fmt::format("{}{}", word, &word == &arguments.command.back() ? "\n" : " ");
  console.print(text + "Nothing was started.\n");
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_run(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();
  app.add_option("command", arguments->command, "Program to run, after --, with its arguments")
      ->required()
      ->type_name("CMD");
  app.add_option("--server", arguments->server,
                 "Address of the server that plans the job (lowgear serve): http://host:port or unix:/path")
      ->type_name("ADDRESS");
  app.add_option("--plan", arguments->plan,
                 "Output folder of lowgear plan, or one of its plans, whose clocks are followed")
      ->type_name("DIR");
  app.add_option("--record", arguments->recording,
                 "Folder in which every rank records the times of its units and its energy")
      ->type_name("DIR");
  add_number(
      app, "--slowdown", {.low = 0, .high = 1000}, [arguments](double percent) { arguments->slowdown_pct = percent; },
      "Per cent that an iteration may take longer than by the fastest plan (default 0)");
  app.add_flag("--dry-run", arguments->dry_run, "Print the command and the variables that it would find set");
  return [arguments](Console& console) { return run_attached(*arguments, console); };
}

}  // namespace lowgear::cli
