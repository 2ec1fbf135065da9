#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "agent/journal/journal.h"
#include "agent/process/node_agent.h"
#include "app/cli/arguments/options.h"
#include "app/cli/terminal/process.h"
#include "app/cli/terminal/table.h"
#include "app/operations/commands/agent_requests.h"
#include "app/operations/commands/node/agent_init.h"
#include "app/operations/commands/verbs.h"
#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/figure_text.h"
#include "hardware/gpu/nvml_survey.h"

namespace lowgear::operations {
namespace {

enum class AgentAction : unsigned char { serve, init, restore, status, check };
constexpr auto kAgentActions = std::to_array<std::string_view>({"serve", "init", "restore", "status", "check"});
constexpr std::string_view name(AgentAction action) { return kAgentActions[static_cast<std::size_t>(action)]; }

/// Which options belong to which action, besides --config.
constexpr auto kOptionsOfAgentActions = std::to_array<cli::OptionOfAction>({
    {name(AgentAction::serve), "--dry-run"},
    {name(AgentAction::serve), "--no-writes"},
    {name(AgentAction::init), "--group"},
    {name(AgentAction::init), "--yes"},
    {name(AgentAction::init), "--replace"},
    {name(AgentAction::restore), "--dry-run"},
    {name(AgentAction::restore), "--journal"},
    {name(AgentAction::status), "--json"},
    {name(AgentAction::check), "--json"},
});

struct AgentArguments {
  AgentAction action = AgentAction::serve;
  std::string config = agent::kDefaultAgentConfig;
  std::string journal;
  std::string group;     ///< init
  bool yes = false;      ///< init
  bool replace = false;  ///< init
  bool dry_run = false;
  bool no_writes = false;
  bool json = false;
};

agent::Messages messages_to(cli::Console& console) {
  return {.note = [&console](std::string_view text) { console.note(text); },
          .warn = [&console](std::string_view text) { console.warn(text); }};
}

/// Failed, saying what, when there is something.
cli::ExitCode report(const std::vector<std::string>& failures, cli::Console& console) {
  for (const std::string& failure : failures) console.error(failure);
  return failures.empty() ? cli::ExitCode::ok : cli::ExitCode::failed;
}

/// Through the agent that holds the journal, wherever that answers.
cli::ExitCode ask_to_restore(const agent::LockHolder& holder, cli::Console& console) {
  const std::string who = describe(holder);
  if (holder.control_socket.empty()) {
    throw Error(
        fmt::format("{} holds the journal and accepts no requests; wait until it has restored, or end it and "
                    "restore again",
                    who));
  }
  try {
    const http::ReplyText answer = ask_socket(holder.control_socket, "POST", "/v1/restore");
    if (answer.status >= 300) {
      throw Error(fmt::format("the agent refuses: {}", http::refusal_text(answer.status, answer.body)));
    }
  } catch (const http::ClientError& error) {
    throw Error(fmt::format("{} holds the journal and does not respond; end it, and restore again: {}", who,
                            printable(error.what())));
  }
  console.note("the running agent has ended every lease and restored every GPU");
  return cli::ExitCode::ok;
}

cli::ExitCode run_restore(const agent::Config& config, cli::Console& console) {
  try {
    const std::vector<std::string> failures = restore_node(config, messages_to(console));
    if (failures.empty()) console.note("every GPU is in its original state");
    return report(failures, console);
  } catch (const agent::JournalHeld& held) {
    return ask_to_restore(held.holder(), console);
  }
}

std::string preview_of(const agent::OriginalGpuState& state) {
  std::string text = fmt::format("GPU {}: would reset its clocks to the driver's default", state.uuid);
  if (state.power_limit_w) text += fmt::format(", its power limit to {} W", *state.power_limit_w);
  if (state.persistence_mode) text += fmt::format(", persistence mode to {}", *state.persistence_mode ? "on" : "off");
  if (state.workload_power_profiles) {
    text += fmt::format(", its workload power profiles to {}", gpu::to_string(*state.workload_power_profiles));
  }
  if (state.power_smoothing) {
    text += fmt::format(", power smoothing to {}", state.power_smoothing->enabled ? "on" : "off");
  }
  return text + "\n";
}

/// What would be restored first; empty when nothing is known that would be.
std::string preview_of_recovery(const agent::Config& config) {
  std::error_code unknown;
  if (!std::filesystem::exists(config.journal, unknown)) return {};
  std::string text;
  try {
    const agent::JournalContent journal = agent::read_journal_folder(config.journal);
    for (const auto& [uuid, state] : journal.changed) text += preview_of(state);
    if (journal.damaged) text += "the journal is damaged: `lowgear agent restore --dry-run` shows what that means\n";
  } catch (const std::exception& error) {
    text += fmt::format("the journal cannot be read, so it is not known which GPUs would be restored first: {}\n",
                        error.what());
  }
  return text;
}

/// The prefix of commands that only root may run.
std::string_view sudo() { return ::geteuid() == 0 ? "" : "sudo "; }

/// Throws InputError, with the command that writes one, where there is no configuration.
agent::Config load_config(const std::filesystem::path& file) {
  std::error_code unknown;
  if (std::filesystem::exists(file, unknown) || unknown) return agent::load_agent_config(file);
  const bool is_default = file == agent::kDefaultAgentConfig;
  throw InputError(fmt::format("{}: No such file; `{}lowgear agent init{}` writes one for this machine's GPUs",
                               printable(file.string()), sudo(),
                               is_default ? "" : " --config " + printable(file.string())));
}

/// Prints what the agent would do to which GPU, and does nothing. Works without a configuration, too: then there is
/// nothing that it may do.
cli::ExitCode preview_serve(const AgentArguments& arguments, cli::Console& console) {
  std::error_code unknown;
  const bool none =
      arguments.config == agent::kDefaultAgentConfig && !std::filesystem::exists(arguments.config, unknown);
  const agent::Config config =
      none ? agent::parse_agent_config("", arguments.config, system_name_lookup()) : load_config(arguments.config);
  std::string text;
  if (none) {
    text = fmt::format(
        "no configuration: {} does not exist, and the agent does not start without one. `{}lowgear agent init` writes "
        "one for this machine; --config FILE names another. With an empty one the agent:\n",
        arguments.config, sudo());
  }
  const std::unique_ptr<gpu::GpuSystem> system = gpu::open_nvml();
  for (const std::string& problem : system->problems()) console.warn(problem);
  text += preview_of_recovery(config) + preview_of_agent(config, *system);
  console.print(text + "Nothing was done.\n");
  return cli::ExitCode::ok;
}

/// Prints the changes that `restore` would make, from the journal alone.
cli::ExitCode preview_restore(const agent::Config& config, cli::Console& console) {
  const agent::JournalContent journal = agent::read_journal_folder(config.journal);
  std::string text;
  for (const auto& [uuid, state] : journal.changed) text += preview_of(state);
  if (journal.damaged) {
    text +=
        "the journal is damaged: would restore every GPU that may be changed, its power limit and persistence mode to "
        "the driver's defaults\n";
  }
  if (text.empty()) text = "the journal names no GPU that was left changed: nothing would be changed\n";
  console.print(text + "A running agent would be asked to do it, and would first end every lease. Nothing was done.\n");
  return cli::ExitCode::ok;
}

std::string text_of(const Json& object, const char* member) {
  if (!object.contains(member) || object[member].is_null()) return "-";
  return object[member].is_string() ? object[member].get<std::string>() : object[member].dump();
}

std::string status_text(const Json& gpus, const Json& leases) {
  cli::Table table({{"GPU", cli::Table::Align::left},
                    {"model", cli::Table::Align::left},
                    {"clocks", cli::Table::Align::left},
                    {"requested"},
                    {"writes"},
                    {"lease"}});
  for (const Json& gpu : gpus["gpus"]) {
    const Json& clocks = gpu["clocks"];
    table.add_row({text_of(gpu, "uuid"), text_of(gpu, "name"), text_of(clocks, "state"),
                   text_of(clocks, "requested_max_mhz"), text_of(clocks, "writes"), text_of(gpu, "lease")});
  }
  std::string text = gpus.value("simulated", false) ? "simulated GPUs\n" : "";
  text += table.text();
  for (const Json& gpu : gpus["gpus"]) {
    if (gpu["problem"].is_null()) continue;
    text += fmt::format("{} {}: {}\n", gpu.value("healthy", true) ? "problem of" : "not healthy:", text_of(gpu, "uuid"),
                        gpu::without_gpu_name(text_of(gpu, "problem"), text_of(gpu, "uuid")));
  }
  for (const Json& gpu : gpus["gpus"]) {
    if (!gpu.contains("energy_problem") || gpu["energy_problem"].is_null()) continue;  // of an older agent
    text += fmt::format("energy of {}: {}\n", text_of(gpu, "uuid"), text_of(gpu, "energy_problem"));
  }
  for (const Json& gpu : gpus["unattended"]) text += fmt::format("unattended: {}\n", text_of(gpu, "problem"));
  for (const Json& gpu : gpus["gpus"]) {
    if (!gpu.contains("assigned_to") || gpu["assigned_to"].is_null()) continue;  // of an older agent
    const Json& assigned = gpu["assigned_to"];
    text += fmt::format("assigned: GPU {} to job {} of user id {}; only this user and root can lease it\n",
                        text_of(gpu, "uuid"), text_of(assigned, "job"), text_of(assigned, "uid"));
  }
  for (const Json& lease : leases["leases"]) {
    const std::string job = text_of(lease, "job");
    text += fmt::format("lease {}: GPU {}, user {}{}", text_of(lease, "id"), text_of(lease, "gpu_uuid"),
                        text_of(lease, "user"), job.empty() ? "" : ", job " + job);
    if (!lease["rank"].is_null()) {  // else the process has set the GPU over HTTP
      text += fmt::format(", rank {}, {} units", text_of(lease, "rank"), text_of(lease, "units"));
    }
    text += "\n";
  }
  return text;
}

/// Empty where the agent runs no daemon.
std::string mps_text(const Json& mps) {
  if (mps.is_null()) return "";
  std::string text;
  for (const Json& daemon : mps["daemons"]) {
    text += fmt::format("MPS daemon of {}: {}, {} % given{}\n", text_of(daemon, "gpu_uuid"), text_of(daemon, "state"),
                        text_of(daemon, "sum_percent"),
                        daemon["problem"].is_null() ? "" : fmt::format("; {}", text_of(daemon, "problem")));
  }
  for (const Json& share : mps["shares"]) {
    text += fmt::format("share {}: {} % of GPU {}, {}, user {}, process {}\n", text_of(share, "id"),
                        text_of(share, "percent"), text_of(share, "gpu_uuid"), text_of(share, "client"),
                        text_of(share, "user"), text_of(share, "pid"));
  }
  return text;
}

bool names_socket() {
  const Environment environment = process_environment();
  return environment("LOWGEAR_AGENT_HTTP_SOCKET") || environment("LOWGEAR_AGENT_SOCKET");
}

/// Users may not be allowed to read the configuration, and ask the agent nevertheless.
std::filesystem::path status_socket(const AgentArguments& arguments, bool names_config) {
  const bool may_read = ::access(arguments.config.c_str(), R_OK) == 0;
  if (names_config || (!names_socket() && may_read)) return load_config(arguments.config).process.http_socket;
  return agent_http_socket(process_environment());
}

/// Where the environment names a running agent, and this machine has no configuration that names a journal.
bool is_restored_by_named_agent(const AgentArguments& arguments, bool names_config) {
  std::error_code unknown;
  return arguments.journal.empty() && !names_config && names_socket() &&
         !std::filesystem::exists(arguments.config, unknown);
}

/// Null where the agent runs no daemon.
Json mps_of(const std::filesystem::path& socket) {
  const http::ReplyText answer = ask_socket(socket, "GET", "/v1/mps");
  Json mps = answer.status == 200 ? parse_json(answer.body, "agent") : Json();
  return mps.is_null() || mps["daemons"].empty() ? Json() : mps;
}

cli::ExitCode run_status(const std::filesystem::path& socket, const AgentArguments& arguments, cli::Console& console) {
  const Json gpus = ask_agent_json(socket, "GET", "/v1/gpus");
  const Json leases = ask_agent_json(socket, "GET", "/v1/leases");
  const Json mps = mps_of(socket);
  if (arguments.json) {
    Json both = gpus;
    both["leases"] = leases["leases"];
    if (!mps.is_null()) both["mps"] = {{"daemons", mps["daemons"]}, {"shares", mps["shares"]}};
    console.print_json(both);
  } else {
    console.print(status_text(gpus, leases) + mps_text(mps));
  }
  return cli::ExitCode::ok;
}

/// By the agent at this socket.
cli::ExitCode restore_by_agent(const std::filesystem::path& socket, bool dry_run, cli::Console& console) {
  if (!dry_run) return ask_to_restore({.pid = 0, .control_socket = socket}, console);
  const Json gpus = ask_agent_json(socket, "GET", "/v1/gpus");
  const Json leases = ask_agent_json(socket, "GET", "/v1/leases");
  console.print(
      fmt::format("{}The agent at {} would be asked to end every lease and to restore every GPU that it has "
                  "changed. Nothing was done.\n",
                  status_text(gpus, leases), printable(socket.string())));
  return cli::ExitCode::ok;
}

cli::ExitCode run_check(const agent::Config& config, const AgentArguments& arguments, cli::Console& console) {
  agent::check_agent(config.process);
  const std::string gpus = config.all_gpus ? "every GPU" : counted(config.gpus.size(), "GPU", "GPUs");
  if (arguments.json) {
    console.print_json({{"config", arguments.config},
                        {"gpus", config.gpus},
                        {"all_gpus", config.all_gpus},
                        {"allow_rules", config.allow.size()},
                        {"journal", config.journal.string()}});
  } else {
    console.print(fmt::format("{}: {} may be changed; {}; journal in {}\n", arguments.config, gpus,
                              counted(config.allow.size(), "access rule", "access rules"), config.journal.string()));
  }
  return cli::ExitCode::ok;
}

/// With a journal GPUs are restored even if the configuration is invalid: this command is the last resort.
agent::Config config_of(const AgentArguments& arguments) {
  if (arguments.journal.empty()) return load_config(arguments.config);
  agent::Config config;
  config.journal = arguments.journal;
  config.all_gpus = true;
  return config;
}

cli::ExitCode run_serve(const AgentArguments& arguments, cli::Console& console) {
  const ipc::TerminationSignals signals;
  cli::repeat_received_signal();
  const agent::Config config = config_of(arguments);
  const agent::Mode mode = arguments.no_writes ? agent::Mode::dry_run : agent::Mode::write;
  const std::vector<std::string> failures = serve_node(config, mode, messages_to(console), signals);
  if (failures.empty()) {
    console.note(arguments.no_writes ? "stopped; every lease has ended"
                                     : "stopped; every lease has ended, and every GPU is restored");
  }
  return report(failures, console);
}

cli::ExitCode run_agent_verb(const AgentArguments& arguments, const CLI::App& app, cli::Console& console) {
  cli::refuse_options_of_other_actions(app, name(arguments.action), kOptionsOfAgentActions);
  if (arguments.action == AgentAction::serve) {
    return arguments.dry_run ? preview_serve(arguments, console) : run_serve(arguments, console);
  }
  if (arguments.action == AgentAction::init) {
    return run_agent_init(
        {.config = arguments.config, .group = arguments.group, .yes = arguments.yes, .replace = arguments.replace},
        console);
  }
  if (arguments.action == AgentAction::status) {
    return run_status(status_socket(arguments, app.count("--config") > 0), arguments, console);
  }
  if (arguments.action == AgentAction::restore && is_restored_by_named_agent(arguments, app.count("--config") > 0)) {
    return restore_by_agent(agent_http_socket(process_environment()), arguments.dry_run, console);
  }
  const agent::Config config = config_of(arguments);
  switch (arguments.action) {
    case AgentAction::serve:
    case AgentAction::init:
    case AgentAction::status:
      break;
    case AgentAction::restore:
      return arguments.dry_run ? preview_restore(config, console) : run_restore(config, console);
    case AgentAction::check:
      return run_check(config, arguments, console);
  }
  return cli::ExitCode::failed;
}

}  // namespace

cli::VerbAction declare_agent(CLI::App& app) {
  auto arguments = std::make_shared<AgentArguments>();
  cli::add_choice(
      app, "action", kAgentActions,
      [arguments](std::size_t place) { arguments->action = static_cast<AgentAction>(place); },
      "serve (the default): set clocks until SIGTERM or SIGINT; init: write a configuration for this machine's GPUs "
      "and your group; restore: reset every changed GPU, with or without a running agent; status: show the GPUs and "
      "leases of the running agent, which is at LOWGEAR_AGENT_HTTP_SOCKET "
      "where that is "
      "set; check: check a configuration")
      ->default_str("serve");
  CLI::Option* const config =
      app.add_option("--config", arguments->config,
                     "Configuration file; deploy/agent.yaml (/usr/share/lowgear/agent.yaml) explains it")
          ->type_name("FILE")
          ->default_str(agent::kDefaultAgentConfig);
  app.add_option("--journal", arguments->journal,
                 "restore: journal folder that names the GPUs to reset; needs no configuration")
      ->type_name("DIR")
      ->excludes(config);
  app.add_option("--group", arguments->group,
                 "init: group whose members may lock clocks (default: yours; under sudo that of its caller)")
      ->type_name("NAME");
  app.add_flag("--yes", arguments->yes, "init: write the configuration without asking");
  app.add_flag("--replace", arguments->replace,
               "init: replace an existing file, which is kept with the ending .old, .old.1 and so on");
  CLI::Option* const dry_run = app.add_flag("--dry-run", arguments->dry_run,
                                            "serve, restore: print the changes of every GPU, make none, and exit");
  app.add_flag("--no-writes", arguments->no_writes,
               "serve: accept leases and follow plans, but only log the settings; change no GPU")
      ->excludes(dry_run);
  cli::add_json_flag(app, arguments->json);
  return [arguments, &app](cli::Console& console) { return run_agent_verb(*arguments, app, console); };
}

}  // namespace lowgear::operations
