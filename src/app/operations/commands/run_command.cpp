#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/help.h"
#include "app/cli/terminal/process.h"
#include "app/operations/commands/agent_requests.h"
#include "app/operations/commands/rank_programs.h"
#include "app/operations/commands/run_checks.h"
#include "app/operations/commands/verbs.h"
#include "app/operations/doctor/python_check.h"
#include "base/core/environment.h"
#include "base/core/error.h"
#include "client/job_search.h"
#include "client/rank/rank_environment.h"
#include "client/server/rank_note.h"
#include "client/server/server_addresses.h"
#include "client/steps/step_planning.h"
#include "hardware/measure/command.h"
#include "planning/steps/work_model.h"

namespace lowgear::operations {
namespace {

namespace fs = std::filesystem;

struct RunArguments {
  std::string server;
  std::string plan;
  std::string steps;       ///< profile of a recording with lengths
  std::string clocks_per;  ///< empty: unit
  std::string recording;
  std::string search;
  std::string points;
  std::optional<double> search_block_s;
  std::string search_record;
  std::optional<double> slowdown_pct;
  std::optional<double> switch_latency_ms;
  std::string share;
  std::string agent;  ///< empty: of the environment
  std::vector<std::string> command;
  bool strict = false;
  bool dry_run = false;
};

/// The Python package that comes with this program.
fs::path package_folder() {
  if (const std::optional<fs::path> package = doctor::python_package(program_folder())) return *package;
  throw InputError(
      fmt::format("Lowgear's Python package is missing, neither installed below {} nor in a source tree; install "
                  "python3-lowgear, or the wheel",
                  program_folder().parent_path().string()));
}

/// A plan, or an output folder of `lowgear plan`.
std::string checked_plan(const std::string& name) {
  std::error_code unknown;
  if (fs::is_regular_file(name, unknown) || fs::exists(fs::path(name) / "plans.csv", unknown)) {
    return fs::absolute(name).string();
  }
  const std::string problem = unknown                     ? "cannot be read: " + unknown.message()
                              : fs::exists(name, unknown) ? "it holds no plans.csv"
                                                          : "no such file or folder";
  throw InputError(fmt::format("--plan: {}: {}; name a plan or an output folder of lowgear plan", name, problem));
}

/// A profile, next to which times by length lie.
std::string checked_steps(const std::string& profile) {
  const client::StepFiles files{.profile = profile, .work = steps::work_file_of(profile)};
  try {
    client::check_step_files(files);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--steps: {}", error.what()));
  }
  return fs::absolute(profile).string();
}

/// Throws InputError, which names `source`, an option or a variable, where an address cannot be one of a server.
void require_server_addresses(const std::string& addresses, std::string_view source) {
  try {
    (void)client::parse_server_addresses(addresses);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", source, error.what()));
  }
}

/// The value of an option among the words of a command, as `--name VALUE` or `--name=VALUE`, where `-` and `_` are
/// alike; empty where it has none.
std::string value_of(std::string_view option, const std::vector<std::string>& command) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::size_t end = std::min(command[i].find('='), command[i].size());
    std::string name = command[i].substr(0, end);
    std::replace(name.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(name.size(), 2)), name.end(), '_',
                 '-');
    if (name != option) continue;
    if (end < command[i].size()) return command[i].substr(end + 1);
    return i + 1 < command.size() ? command[i + 1] : "";
  }
  return "";
}

/// Whether the command is one part of a start on several machines, which have to agree on its name: torchrun's options,
/// whose default is one machine, accelerate's, and DeepSpeed's without ssh; or variables that scripts make them of.
bool is_part_of_many(const std::vector<std::string>& command) {
  for (const std::string_view option : {"--nnodes", "--num-machines"}) {
    const std::string machines = value_of(option, command);
    if (!machines.empty()) return machines != "1" && machines != "1:1";
  }
  if (client::names_several_nodes(process_environment())) return true;
  return !value_of("--node-rank", command).empty() || !value_of("--machine-rank", command).empty();
}

/// Throws InputError where the launcher that the command is starts several ranks here.
void require_one_rank(const std::vector<std::string>& command) {
  for (const std::string_view option : {"--nproc-per-node", "--num-processes", "--num-gpus"}) {
    const std::string ranks = value_of(option, command);
    if (ranks.empty() || ranks == "1") continue;
    throw InputError(
        fmt::format("--share: {} {} starts several ranks, and NCCL refuses two ranks of a communicator on "
                    "one GPU; start one rank",
                    option, ranks));
  }
}

/// The job whose ranks meet in communicators. Two steps of one Slurm job are different ones.
std::string job_of(const client::RankInfo& rank) {
  for (const std::string& name : {environment_text("LOWGEAR_JOB"), rank.run, rank.job}) {
    if (!name.empty()) return name;
  }
  return "";
}

/// Asks the agent for the share, which lasts as long as this process, and so as long as the command.
std::map<std::string, std::string> share_variables(const RunArguments& arguments) {
  require_one_rank(arguments.command);
  const GpuShare share = parse_gpu_share(arguments.share);
  if (arguments.dry_run) return {};
  const client::RankInfo rank = client::rank_from_environment(process_environment());
  GpuShareClient client{
      .name = fmt::format("{}-{}", fs::path(arguments.command.front()).filename().string(), ::getpid()),
      .job = job_of(rank),
      .rank = {}};
  if (!client.job.empty()) client.rank = rank.rank;
  const fs::path socket =
      arguments.agent.empty() ? agent_http_socket(process_environment()) : fs::path(arguments.agent);
  return request_gpu_share(socket, share, client);
}

/// Whether the command is to be attached, by an option or a variable.
bool attaches(const RunArguments& arguments) {
  const auto is_set = [](const char* name) { return !environment_text(name).empty(); };
  return !arguments.server.empty() || !arguments.plan.empty() || !arguments.steps.empty() ||
         !arguments.recording.empty() || !arguments.search.empty() || is_set("LOWGEAR_SERVER") ||
         is_set("LOWGEAR_PLAN") || is_set("LOWGEAR_STEPS") || is_set("LOWGEAR_RECORDING") || is_set("LOWGEAR_SEARCH");
}

/// Variables that the command gets in addition to those of this program.
std::map<std::string, std::string> variables_of(const RunArguments& arguments) {
  std::map<std::string, std::string> variables;
  if (attaches(arguments)) variables = doctor::attaching_variables(package_folder(), program_folder());
  if (!arguments.share.empty()) variables.merge(share_variables(arguments));
  const auto set = [&variables](const char* name, const std::string& value) {
    if (!value.empty()) variables[name] = value;
  };
  if (!arguments.server.empty()) set("LOWGEAR_SERVER", client::absolute_server_addresses(arguments.server));
  if (!arguments.plan.empty()) set("LOWGEAR_PLAN", checked_plan(arguments.plan));
  if (!arguments.steps.empty()) set("LOWGEAR_STEPS", checked_steps(arguments.steps));
  set("LOWGEAR_CLOCKS_PER", arguments.clocks_per);
  if (!arguments.recording.empty()) set("LOWGEAR_RECORDING", fs::absolute(arguments.recording).string());
  set("LOWGEAR_SEARCH", arguments.search);
  set("LOWGEAR_SEARCH_POINTS", arguments.points);
  if (arguments.search_block_s) set("LOWGEAR_SEARCH_BLOCK", fmt::format("{}", *arguments.search_block_s));
  if (!arguments.search_record.empty()) {
    set("LOWGEAR_SEARCH_RECORD", fs::absolute(arguments.search_record).string());
  }
  if (arguments.slowdown_pct) set("LOWGEAR_SLOWDOWN", fmt::format("{}", *arguments.slowdown_pct));
  if (arguments.switch_latency_ms) set("LOWGEAR_SWITCH_LATENCY", fmt::format("{}", *arguments.switch_latency_ms));
  // Slurm and torchrun's --rdzv-id name a start by themselves.
  if (!arguments.server.empty() && environment_text("LOWGEAR_RUN").empty() &&
      environment_text("SLURM_JOB_ID").empty() && !is_part_of_many(arguments.command)) {
    set("LOWGEAR_RUN", random_run("run"));
  }
  return variables;
}

void check_points(const std::string& points) {
  try {
    (void)client::parse_points(points);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--points {}: {}", printable(points, 200), error.what()));
  }
}

void check_search_record(const fs::path& record) {
  std::error_code unknown;
  if (!fs::is_directory(record.parent_path(), unknown)) {
    throw InputError(
        fmt::format("--search-record: {}: no such folder; make it first", printable(record.parent_path().string())));
  }
  if (fs::is_directory(record, unknown)) {
    throw InputError(fmt::format("--search-record: {}: is a folder; name a file", printable(record.string())));
  }
}

void check_search(const RunArguments& arguments) {
  if (arguments.search.empty()) {
    if (arguments.points.empty() && !arguments.search_block_s && arguments.search_record.empty()) return;
    throw InputError("--points, --search-block and --search-record are of a search; add --search slowdown=2%");
  }
  (void)client::parse_allowed_slowdown_pct(arguments.search);
  if (!arguments.points.empty()) check_points(arguments.points);
  if (!arguments.search_record.empty()) check_search_record(fs::absolute(arguments.search_record));
  if (!arguments.server.empty() || !arguments.plan.empty()) {
    throw InputError("--search sets clocks or power limits itself; leave out --server and --plan");
  }
  if (!arguments.share.empty()) {
    throw InputError("--search and --share: the energy of a shared GPU is that of all its jobs; leave out one of them");
  }
}

/// The value of an option, or of the variable that stands for it.
std::string asked_for(const std::string& option, std::string_view variable) {
  return option.empty() ? environment_text(variable) : option;
}

void check_steps(const RunArguments& arguments) {
  if (asked_for(arguments.steps, "LOWGEAR_STEPS").empty()) {
    if (arguments.clocks_per.empty()) return;
    throw InputError("--clocks-per is of --steps; add --steps PROFILE.csv");
  }
  const std::array<std::pair<std::string, const char*>, 3> others{
      {{asked_for(arguments.server, "LOWGEAR_SERVER"), "--server"},
       {asked_for(arguments.plan, "LOWGEAR_PLAN"), "--plan"},
       {asked_for(arguments.search, "LOWGEAR_SEARCH"), "--search"}}};
  for (const auto& [value, name] : others) {
    if (value.empty()) continue;
    throw InputError(fmt::format("--steps and {0}: clocks come from one of them; leave out --steps or {0}", name));
  }
  if (arguments.slowdown_pct) {
    throw InputError(
        "--steps and --slowdown: each iteration ends when its longest replica does at full clocks; leave out "
        "--slowdown");
  }
  if (arguments.switch_latency_ms) {
    throw InputError("--steps and --switch-latency: the profile has its own (column switch_latency); leave it out");
  }
}

void check_asked(const RunArguments& arguments) {
  if (arguments.share.empty() && !attaches(arguments)) {
    throw InputError(
        "nothing to do for the command; add --server ADDRESS, --plan DIR, --steps PROFILE.csv, --search slowdown=2%, "
        "--record DIR or --share GPU:PERCENT%");
  }
  check_search(arguments);
  check_steps(arguments);
  if (!arguments.server.empty()) {
    require_server_addresses(client::absolute_server_addresses(arguments.server), "--server");
  } else if (const std::string inherited = environment_text("LOWGEAR_SERVER"); !inherited.empty()) {
    require_server_addresses(inherited, "LOWGEAR_SERVER");
  }
  if (!arguments.server.empty() && !arguments.plan.empty()) {
    throw InputError("--server and --plan: plans come from one of them");
  }
  std::error_code unknown;
  if (arguments.slowdown_pct && fs::is_regular_file(arguments.plan, unknown)) {
    throw InputError(
        "--slowdown chooses among the plans of a folder, and --plan names one plan; leave out --slowdown, or name the "
        "folder");
  }
  if (arguments.switch_latency_ms && !arguments.plan.empty()) {
    throw InputError("--switch-latency and --plan: the plan has its own (lowgear plan --switch-latency MS)");
  }
}

AttachedNeeds needs_of(const RunArguments& arguments) {
  AttachedNeeds needs{.servers = asked_for(client::absolute_server_addresses(arguments.server), "LOWGEAR_SERVER"),
                      .agent = false,
                      .recording = asked_for(arguments.recording, "LOWGEAR_RECORDING")};
  needs.agent = !needs.servers.empty() || !asked_for(arguments.plan, "LOWGEAR_PLAN").empty() ||
                !asked_for(arguments.steps, "LOWGEAR_STEPS").empty() ||
                !asked_for(arguments.search, "LOWGEAR_SEARCH").empty();
  return needs;
}

/// Whether this process speaks for the job: of several that a launcher has started, the first.
bool speaks_for_job() {
  try {
    return client::rank_from_environment(process_environment()).rank == 0;
  } catch (const InputError&) {
    return true;  // the ranks say what is wrong with it
  }
}

/// Training does not depend on Lowgear: without --strict the command starts all the same.
void check_needs(const RunArguments& arguments, cli::Console& console) {
  if (!attaches(arguments) || !(arguments.strict || speaks_for_job())) return;
  const std::vector<std::string> missing = missing_needs(needs_of(arguments));
  if (missing.empty()) return;
  if (arguments.strict) throw Error(fmt::format("--strict: {}; nothing was started", fmt::join(missing, "; ")));
  for (const std::string& line : missing) console.warn(line);
}

/// Becomes the command, so that its exit status, signals and terminal are its own.
[[noreturn]] void become_command(const std::vector<std::string>& command,
                                 const std::map<std::string, std::string>& variables) {
  std::signal(SIGPIPE, SIG_DFL);  // this program ignores it
  const std::string problem = replace_process(command, variables);
  throw InputError(fmt::format("{}: cannot be started: {}", command.front(), problem));
}

/// The mark for which another `lowgear run` waits that has started this one; empty: there is none.
fs::path outer_mark() {
  const fs::path mark = environment_text(kMarkVariable);
  std::error_code unknown;
  return !mark.empty() && fs::exists(mark.parent_path(), unknown) ? mark : fs::path();
}

/// Of a client at its end: more than it takes of a reason.
constexpr std::size_t kLongestLine = 2000;

/// What a command left behind.
struct AttachedResult {
  measure::CommandResult command;
  bool attached = false;
  bool told = false;     ///< by its clients, which saw the mark
  std::string followed;  ///< what the clients of first ranks say of plans, one line each; empty: nothing
  std::string problem;   ///< why a client could not be opened, as a rank says; empty: none says so
  std::string failure;   ///< how the command has failed; empty: it has not
  std::set<int> gone;    ///< ranks that left no word
};

/// Null where no folder can be made for the mark. Training does not depend on that: without --strict it says so.
std::unique_ptr<RendezvousFolder> mark_folder(const RunArguments& arguments, cli::Console& console) {
  try {
    return std::make_unique<RendezvousFolder>();
  } catch (const std::exception& error) {
    if (arguments.strict) throw Error(fmt::format("--strict: {}; nothing was started", error.what()));
    console.warn(fmt::format("whether the command attaches is not watched: {}", error.what()));
    return nullptr;
  }
}

/// The lines of first ranks that left none at the mark.
std::string records_next_to(const fs::path& mark) {
  const std::string prefix = mark.filename().string() + std::string(client::kRecordInfix);
  std::string lines;
  std::error_code unknown;
  for (const fs::directory_entry& entry : fs::directory_iterator(mark.parent_path(), unknown)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    std::ifstream record(entry.path());
    lines.append(std::istreambuf_iterator<char>(record), std::istreambuf_iterator<char>());
  }
  return lines;
}

/// How the command has failed; empty: it has not.
std::string failure_of(const measure::CommandResult& command) {
  if (command.signal != 0) return fmt::format("its command was ended by signal {}", command.signal);
  if (command.shell_status() == 0) return "";
  return fmt::format("its command ended with exit status {}", command.shell_status());
}

measure::CommandResult run_marked(const std::vector<std::string>& command,
                                  const std::map<std::string, std::string>& variables, const fs::path& mark) {
  // NOLINTBEGIN(concurrency-mt-unsafe): there is no other thread
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv(kMarkVariable, mark.c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
  measure::SignalGuard guard(command);
  cli::throw_if_interrupted();  // by a signal from before
  return measure::run_command(command, measure::CommandOutput::standard_output, guard);
}

AttachedResult run_and_read(const RunArguments& arguments, const std::map<std::string, std::string>& variables,
                            const fs::path& mark, cli::Console& console) {
  const std::string recording = needs_of(arguments).recording.string();
  const Recordings before = recordings_in(recording);
  AttachedResult result;
  result.command = run_marked(arguments.command, variables, mark);
  result.failure = failure_of(result.command);
  result.gone = finish_gone_ranks(mark, result.failure, console);
  std::error_code unknown;
  // Ranks on other machines may share the folder of recordings, and not the mark.
  result.told = fs::exists(mark, unknown);
  result.attached = result.told || recordings_in(recording) != before;
  std::ifstream said(mark);
  result.followed.assign(std::istreambuf_iterator<char>(said), std::istreambuf_iterator<char>());
  result.followed += records_next_to(mark);
  std::ifstream reason(mark.string() + ".reason");
  std::getline(reason, result.problem);
  return result;
}

/// Ends as the command did; after a good end without anything attached it says so.
cli::ExitCode run_and_look(const RunArguments& arguments, const std::map<std::string, std::string>& variables,
                           cli::Console& console) {
  std::unique_ptr<RendezvousFolder> folder = mark_folder(arguments, console);
  if (!folder) become_command(arguments.command, variables);
  const fs::path outer = outer_mark();
  const AttachedResult result = run_and_read(arguments, variables, folder->file(), console);
  folder.reset();
  if (result.attached && !outer.empty()) std::ofstream(outer).flush();
  const int asked = result.command.asked;
  if (!result.gone.empty() && !result.failure.empty() && asked == 0) {
    console.note(
        fmt::format("rank{} {}: no last word (killed by SIGKILL, or ended by the launcher after another failed); {}",
                    result.gone.size() > 1 ? "s" : "", fmt::join(result.gone, ", "), result.failure));
  }
  std::istringstream followed(result.followed);
  const bool must_follow = arguments.strict && !asked_for(arguments.plan, "LOWGEAR_PLAN").empty();
  bool is_unfollowed = false;
  for (std::string line; std::getline(followed, line);) {
    const bool is_fault = must_follow && line.starts_with(client::kNoPlanFollowed);
    is_unfollowed = is_unfollowed || is_fault;
    is_fault ? console.error(printable(line, kLongestLine)) : console.note(printable(line, kLongestLine));
  }
  if (asked != 0 && !result.failure.empty()) {
    console.note(fmt::format("stopped by signal {} ({})", asked, ::strsignal(asked)));
  }
  if (result.attached && !result.told && needs_of(arguments).agent && speaks_for_job()) {
    console.note(
        "whether plans were followed is not known here: the job does not see this machine's temporary folder, "
        "as in a container; where a server plans it, that says so, as for every job");
  }
  if (result.command.signal != 0) {
    ::prctl(PR_SET_DUMPABLE, 0);  // the command has left its own core
    cli::raise_by_default(result.command.signal);
  }
  const int status = result.command.shell_status();
  if (status == 0 && is_unfollowed) return cli::ExitCode::failed;
  if (status != 0 || result.attached) return static_cast<cli::ExitCode>(status);
  std::string text = fmt::format("nothing attached: {}", printable(result.problem, 1000));
  if (result.problem.empty()) {
    text = fmt::format(
        "nothing attached: on {} no process of the command trained with a framework that Lowgear observes (one in a "
        "container without this machine's "
        "temporary folder cannot say so); "
        "lowgear doctor, in the environment of the job, says what it does with each (docs/attaching.md)",
        host_name());
  }
  if (arguments.strict) {
    console.error(text);
    return cli::ExitCode::failed;
  }
  if (speaks_for_job()) console.warn(text);
  return cli::ExitCode::ok;
}

cli::ExitCode run_attached(const RunArguments& arguments, cli::Console& console) {
  check_asked(arguments);
  const std::map<std::string, std::string> variables = variables_of(arguments);
  if (!arguments.dry_run) {
    check_needs(arguments, console);
    // Within another `lowgear run` that one looks, unless this one is strict.
    if (attaches(arguments) && (arguments.strict || outer_mark().empty()))
      return run_and_look(arguments, variables, console);
    become_command(arguments.command, variables);
  }
  std::string text;
  for (const auto& [name, value] : variables) text += fmt::format("{}={}\n", name, value);
  for (const std::string& word : arguments.command)
    text += fmt::format("{}{}", word, &word == &arguments.command.back() ? "\n" : " ");
  if (!arguments.share.empty()) {
    text += fmt::format("The agent at {} would be asked for a share, {}, with further variables.\n", arguments.agent,
                        arguments.share);
  }
  console.print(text + "Nothing was started.\n");
  return cli::ExitCode::ok;
}

}  // namespace

cli::VerbAction declare_run(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();
  app.add_option("command", arguments->command, "Program to run, after --, with its arguments")
      ->required()
      ->type_name(cli::kProgramType);
  app.add_option("--server", arguments->server,
                 "Address of the server that plans the job (lowgear serve): http://host:port, https://host:port or "
                 "unix:/path; several, separated by commas, if it may move")
      ->type_name("ADDRESS");
  app.add_option("--plan", arguments->plan,
                 "Output folder of lowgear plan, or one of its plans, whose clocks are followed")
      ->type_name("DIR");
  app.add_option(
         "--steps", arguments->steps,
         "Profile of this job with times by length (lowgear profile of a recording with lengths): each iteration "
         "runs at clocks for the lengths that lowgear.tell_lengths tells before it begins")
      ->type_name("PROFILE.csv");
  static constexpr auto kClocksPer = std::to_array<std::string_view>({"unit", "replica"});
  cli::add_choice(
      app, "--clocks-per", kClocksPer, [arguments](std::size_t place) { arguments->clocks_per = kClocksPer.at(place); },
      "With --steps: one clock for each unit (default), or one for a replica's whole iteration");
  app.add_option("--record", arguments->recording,
                 "Folder in which every rank records the times of its units and its energy")
      ->type_name("DIR");
  app.add_option("--search", arguments->search,
                 "Search the clock (or power limit) at which an iteration uses least energy and takes at most this "
                 "much longer than at full speed")
      ->type_name("slowdown=2%");
  app.add_option("--points", arguments->points,
                 "With --search: clock (default) or power-limit, also with values in MHz or W, full speed first: "
                 "clock=1980,1755,1530")
      ->type_name("KIND");
  cli::add_quantity(app, "--search-block", Unit::second, {.low = 0.001, .high = 86'400},
                    cli::into(arguments->search_block_s),
                    "With --search: least time for which a point is measured at once, in s (default 30)");
  app.add_option("--search-record", arguments->search_record,
                 "With --search: file to which observations and decisions are appended")
      ->type_name("FILE");
  cli::add_quantity(
      app, "--slowdown", Unit::percent, {.low = 0, .high = 1000},
      [arguments](double percent) { arguments->slowdown_pct = percent; },
      "Largest slowdown of an iteration against the fastest plan, in per cent (default 0)");
  cli::add_quantity(app, "--switch-latency", Unit::millisecond, {.low = 0, .high = 10'000},
                    cli::into(arguments->switch_latency_ms),
                    "With --server: time from the request of a clock change until it takes effect, in ms; agents "
                    "request clocks that long before their units (default 25; lowgear doctor --measure-switch-latency "
                    "measures it)");
  app.add_option(
         "--share", arguments->share,
         "Start the command as a client of the agent's MPS daemon that may use this share of the GPU's SMs; the GPU by "
         "index, PCI address or UUID: 0:50%")
      ->type_name("GPU:PERCENT%");
  app.add_option("--agent", arguments->agent,
                 "With --share: HTTP socket of the agent (default: LOWGEAR_AGENT_HTTP_SOCKET, or agent.sock next to "
                 "LOWGEAR_AGENT_SOCKET, or /run/lowgear/agent.sock)")
      ->type_name("SOCKET");
  app.add_flag(
      "--strict", arguments->strict,
      "Do not start the command where server, agent or folder is missing, and exit with 1 where it ends well and "
      "nothing attached, or no iteration followed --plan");
  app.add_flag("--dry-run", arguments->dry_run, "Print the command and the variables that would be set for it");
  return [arguments](cli::Console& console) { return run_attached(*arguments, console); };
}

}  // namespace lowgear::operations
