#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/process.h"
#include "app/operations/commands/agent_requests.h"
#include "app/operations/commands/verbs.h"
#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/http/message/error.h"
#include "client/rank/rank_environment.h"
#include "server/http/sign_ins.h"
#include "server/server_process.h"
#include "server/state_check.h"
#include "server/store/database.h"
#include "server/store/state_backup.h"

namespace lowgear::operations {
namespace {

enum class StateAction : unsigned char { backup, final_backup, restore };
enum class StateEffect : unsigned char { carried_out, checked };  ///< checked: a dry run

/// What `lowgear serve backup` and `lowgear serve restore` do with a server's state.
struct StateRequest {
  StateAction action = StateAction::backup;
  StateEffect effect = StateEffect::carried_out;
  std::filesystem::path state;  ///< folder of the server
  std::filesystem::path file;   ///< the backup
};

server::StateSummary carry_out(const StateRequest& request) {
  const bool checks = request.effect == StateEffect::checked;
  if (request.action == StateAction::restore) {
    const server::RestoreRequest restore{
        .file = request.file, .state = request.state, .unreadable = server::unreadable_rows};
    return checks ? server::check_restore(restore) : server::restore(restore);
  }
  const server::BackupKind kind =
      request.action == StateAction::final_backup ? server::BackupKind::final : server::BackupKind::copy;
  const server::BackupRequest backup{
      .state = request.state, .file = request.file, .kind = kind, .unreadable = server::unreadable_rows};
  return checks ? server::check_backup(backup) : server::back_up(backup);
}

Json summary_json(const StateRequest& request, const server::StateSummary& summary) {
  return {{"action", request.action == StateAction::restore ? "restore" : "backup"},
          {"final", request.action == StateAction::final_backup},
          {"dry_run", request.effect == StateEffect::checked},
          {"state", request.state.string()},
          {"file", request.file.string()},
          {"bytes", summary.bytes},
          {"schema_version", server::kStoreSchema},
          {"open_jobs", summary.open_jobs},
          {"finished_jobs", summary.finished_jobs}};
}

std::string summary_text(const StateRequest& request, const server::StateSummary& summary) {
  const std::string state = printable(request.state.string());
  const std::string file = printable(request.file.string());
  const std::string what = fmt::format("{} open and {} finished jobs, {} bytes, schema version {}", summary.open_jobs,
                                       summary.finished_jobs, summary.bytes, server::kStoreSchema);
  const bool restores = request.action == StateAction::restore;
  if (request.effect == StateEffect::checked) {
    return fmt::format("nothing is changed (--dry-run); {} would be {} {}: {}\n", restores ? file : state,
                       restores ? "restored into" : "backed up to", restores ? state : file, what);
  }
  std::string text = fmt::format("{} {}: {}; all of it is read again and whole\n",
                                 restores ? "restored into" : "backed up to", restores ? state : file, what);
  if (request.action == StateAction::final_backup) {
    text += fmt::format("no server starts from {} any more; restore the file where its jobs are to be served\n", state);
  }
  return text;
}

/// Makes or restores a backup, or only checks whether it is possible; prints the result.
cli::ExitCode run_state_request(const StateRequest& request, bool json, cli::Console& console) {
  const server::StateSummary summary = carry_out(request);
  if (json) {
    console.print_json(summary_json(request, summary));
  } else {
    console.print(summary_text(request, summary));
  }
  return cli::ExitCode::ok;
}

enum class ServeAction : unsigned char { run, backup, restore, sign_in };
constexpr auto kServeActions = std::to_array<std::string_view>({"run", "backup", "restore", "sign-in"});
constexpr std::string_view name(ServeAction action) { return kServeActions.at(static_cast<std::size_t>(action)); }

constexpr auto kOptionsOfServeActions = std::to_array<cli::OptionOfAction>({
    {name(ServeAction::run), "--unix"},
    {name(ServeAction::sign_in), "--unix"},
    {name(ServeAction::run), "--listen"},
    {name(ServeAction::run), "--listen-tls"},
    {name(ServeAction::run), "--tls-certificate"},
    {name(ServeAction::run), "--tls-key"},
    {name(ServeAction::run), "--token-file"},
    {name(ServeAction::run), "--perseus-listen"},
    {name(ServeAction::run), "--perseus-scheduler"},
    {name(ServeAction::run), "--perseus-args"},
    {name(ServeAction::run), "--perseus-mode"},
    {name(ServeAction::run), "--perseus-log-level"},
    {name(ServeAction::run), "--perseus-dump-dir"},
    {name(ServeAction::run), "--perseus-no-dump"},
    {name(ServeAction::run), "--check"},
    {name(ServeAction::backup), "file"},
    {name(ServeAction::backup), "--final"},
    {name(ServeAction::backup), "--dry-run"},
    {name(ServeAction::restore), "file"},
    {name(ServeAction::restore), "--dry-run"},
});

struct ServeArguments {
  ServeAction action = ServeAction::run;
  std::string file;  ///< backup, restore
  std::string config;
  std::string state;
  std::string unix_socket;
  std::vector<std::string> listen;
  std::vector<std::string> listen_tls;
  std::string tls_certificate;
  std::string tls_key;
  std::string token_file;
  std::string perseus_listen;
  std::string perseus_scheduler;
  std::optional<std::string> perseus_args;
  std::string perseus_mode;
  std::string perseus_log_level;
  std::string perseus_dump_dir;
  bool perseus_no_dump = false;
  bool check = false;
  bool final_backup = false;
  bool dry_run = false;
  bool json = false;
};

/// Value of a variable of Perseus' server that stands for "no", in upper or lower case.
constexpr auto kNo = std::to_array<std::string_view>({"0", "false", "f", "no", "n", "off"});

/// Options that are not given have the values of the variables that configure Perseus' server.
ServeArguments with_perseus_variables(ServeArguments arguments, const Environment& environment) {
  const auto fill = [&environment](std::string& option, std::string_view variable) {
    if (option.empty()) option = environment(variable).value_or("");
  };
  const bool own_scheduler = arguments.perseus_scheduler.empty();
  fill(arguments.perseus_scheduler, "PERSEUS_SCHEDULER");
  if (own_scheduler && !arguments.perseus_args) arguments.perseus_args = environment("PERSEUS_SCHEDULER_ARGS");
  fill(arguments.perseus_mode, "PERSEUS_MODE");
  fill(arguments.perseus_log_level, "PERSEUS_LOG_LEVEL");
  if (!arguments.perseus_dump_dir.empty()) return arguments;
  fill(arguments.perseus_dump_dir, "PERSEUS_DUMP_DIR");
  const std::string dump = cli::lower_case(environment("PERSEUS_DUMP_DATA").value_or("true"));
  if (std::ranges::find(kNo, dump) != kNo.end()) arguments.perseus_no_dump = true;
  return arguments;
}

void change_perseus(const ServeArguments& given, server::PerseusConfig& config) {
  if (!given.perseus_listen.empty()) config.listen = server::parse_tcp_address(given.perseus_listen);
  if (!config.listen) return;
  const ServeArguments arguments = with_perseus_variables(given, process_environment());
  if (!arguments.perseus_scheduler.empty() && arguments.perseus_scheduler != config.scheduler) {
    config.scheduler = arguments.perseus_scheduler;
    config.scheduler_args.clear();  // those of the file are another scheduler's
  }
  if (arguments.perseus_args) config.scheduler_args = *arguments.perseus_args;
  if (!arguments.perseus_mode.empty()) config.mode = arguments.perseus_mode;
  if (!arguments.perseus_log_level.empty()) config.log_level = arguments.perseus_log_level;
  if (!arguments.perseus_dump_dir.empty()) {
    config.dump = true;
    config.dump_dir = std::filesystem::absolute(arguments.perseus_dump_dir);
  }
  if (arguments.perseus_no_dump) config.dump = false;
}

/// The user's own folder for state (XDG Base Directory Specification); without a home the system's.
std::filesystem::path own_state(const Environment& environment) {
  const auto value = [&](std::string_view name) { return std::filesystem::path(environment(name).value_or("")); };
  if (value("XDG_STATE_HOME").is_absolute()) return value("XDG_STATE_HOME") / "lowgear-server";
  if (value("HOME").is_absolute()) return value("HOME") / ".local" / "state" / "lowgear-server";
  return server::Config().state;
}

/// Without a configuration, as from a checkout: no package has made folders in /var/lib and /run, so state and socket
/// are in a folder of the user's.
server::Config config_without_file(const ServeArguments& arguments) {
  server::Config config;
  config.state = arguments.state.empty() ? own_state(process_environment()) : std::filesystem::path(arguments.state);
  config.state = std::filesystem::absolute(config.state);
  config.unix_socket = config.state / "server.sock";
  if (arguments.state.empty() && !arguments.check) {
    std::error_code error;
    std::filesystem::create_directories(config.state.parent_path(), error);
    if (error) {
      throw_input_error({config.state.string(), 0, 0}, "cannot be made: " + error.message(), "give --state FOLDER");
    }
  }
  return config;
}

/// The configuration file, if one is named or the default one exists.
std::optional<server::Config> config_file_of(const ServeArguments& arguments) {
  std::error_code unknown;
  if (arguments.config.empty()) {
    if (!std::filesystem::exists(server::kDefaultServerConfig, unknown)) return std::nullopt;
    return server::load_server_config(server::kDefaultServerConfig);
  }
  if (std::filesystem::symlink_status(arguments.config, unknown).type() == std::filesystem::file_type::not_found) {
    throw_input_error({arguments.config, 0, 0}, "there is no such file",
                      fmt::format("make it by `sudo install -D -m 644 deploy/server.yaml {}` (of the package: "
                                  "/usr/share/lowgear/server.yaml) and the tokens by "
                                  "docs/deploying.md#bare-metal, or leave out --config to serve jobs of this machine",
                                  cli::shell_word(arguments.config)));
  }
  return server::load_server_config(arguments.config);
}

/// The configuration file, where there is one, and the options, which count before it.
server::Config config_of(const ServeArguments& arguments) {
  std::optional<server::Config> of_file = config_file_of(arguments);
  server::Config config = of_file ? *std::move(of_file) : config_without_file(arguments);
  if (!arguments.state.empty()) config.state = std::filesystem::absolute(arguments.state);
  if (!arguments.unix_socket.empty()) config.unix_socket = std::filesystem::absolute(arguments.unix_socket);
  if (!arguments.token_file.empty()) config.token_file = std::filesystem::absolute(arguments.token_file);
  if (!arguments.listen.empty()) config.tcp.clear();
  for (const std::string& address : arguments.listen) config.tcp.push_back(server::parse_tcp_address(address));
  if (!arguments.listen_tls.empty()) config.tls.clear();
  for (const std::string& address : arguments.listen_tls) config.tls.push_back(server::parse_tcp_address(address));
  if (!arguments.tls_certificate.empty()) {
    config.tls_files.certificate = std::filesystem::absolute(arguments.tls_certificate);
  }
  if (!arguments.tls_key.empty()) config.tls_files.key = std::filesystem::absolute(arguments.tls_key);
  require_safe_listening(config);
  change_perseus(arguments, config.perseus);
  return config;
}

std::filesystem::path dump_dir_of(const server::Config& config) {
  return config.perseus.dump_dir.empty() ? config.state / "perseus" : config.perseus.dump_dir;
}

server::ProcessOptions options_of(const ServeArguments& arguments) {
  server::ProcessOptions options{.config = config_of(arguments), .perseus = {}};
  const server::PerseusConfig& perseus = options.config.perseus;
  if (!perseus.listen) return options;
  const std::string mode =
      perseus.mode.empty() ? std::string(server::perseus::default_perseus_mode(perseus.scheduler)) : perseus.mode;
  options.perseus = server::PerseusPort{
      .listen = *perseus.listen,
      .settings = server::perseus::read_perseus_settings(perseus.scheduler, perseus.scheduler_args, mode)};
  options.perseus->settings.log_level = server::perseus::read_perseus_log_level(perseus.log_level);
  if (perseus.dump) options.perseus->settings.dump_dir = dump_dir_of(options.config).string();
  return options;
}

Json addresses_json(const server::Addresses& addresses, const server::ProcessOptions& options) {
  const bool dumps = options.perseus && !options.perseus->settings.dump_dir.empty();
  return {{"unix", addresses.unix_socket.string()},
          {"tcp", addresses.tcp},
          {"perseus", addresses.perseus ? Json(*addresses.perseus) : Json(nullptr)},
          {"perseus_dump_dir", dumps ? Json(options.perseus->settings.dump_dir) : Json(nullptr)}};
}

std::string perseus_text(const std::string& url, const server::perseus::Settings& settings) {
  const std::string results = settings.dump_dir.empty() ? "not written" : "written to " + settings.dump_dir;
  return fmt::format("; the Perseus protocol on {} (scheduler {}, results are {})", url, settings.scheduler, results);
}

/// The one-time token is for a person at a terminal: in a log others might read it.
std::string dashboard_text(const std::string& url, const server::Addresses& addresses,
                           const server::ProcessOptions& options) {
  const std::string another =
      fmt::format("lowgear serve sign-in --unix {}", cli::shell_word(addresses.unix_socket.string()));
  if (!options.shown_to_person) return fmt::format("dashboard: {} (to sign a browser in: {})\n", url, another);
  return fmt::format("dashboard: {}\n(signs one browser in, within {} minutes; for another: {})\n", url,
                     server::SignIns::kCodeLife.count() / 60, another);
}

std::string addresses_text(const server::Addresses& addresses, const server::ProcessOptions& options) {
  std::string text = fmt::format("serving on unix:{}", addresses.unix_socket.string());
  for (const std::string& url : addresses.tcp) text += fmt::format(", {}", url);
  if (addresses.perseus) text += perseus_text(*addresses.perseus, options.perseus->settings);
  text += "\n";
  if (addresses.dashboard) {
    text += dashboard_text(*addresses.dashboard, addresses, options);
  } else if (addresses.tcp.empty()) {
    text += "no dashboard: --listen 127.0.0.1:7787 shows one to browsers of this machine\n";
  }
  const std::string socket = cli::shell_word("unix:" + addresses.unix_socket.string());
  return text +
         fmt::format("next: lowgear train CONFIG.yaml --server {0}, or lowgear run --server {0} -- COMMAND\n", socket);
}

/// Only the folder counts for a backup: nothing else of the configuration has to be in order.
std::filesystem::path state_of(const ServeArguments& arguments) {
  if (!arguments.state.empty()) return std::filesystem::absolute(arguments.state);
  const std::optional<server::Config> config = config_file_of(arguments);
  return config ? config->state : own_state(process_environment());
}

cli::ExitCode run_backup_or_restore(const ServeArguments& arguments, cli::Console& console) {
  if (arguments.file.empty()) {
    throw InputError(fmt::format("the file is missing; write `lowgear serve {} FILE`", name(arguments.action)));
  }
  StateRequest request{.action = StateAction::restore,
                       .effect = arguments.dry_run ? StateEffect::checked : StateEffect::carried_out,
                       .state = state_of(arguments),
                       .file = arguments.file};
  if (arguments.action == ServeAction::backup) {
    request.action = arguments.final_backup ? StateAction::final_backup : StateAction::backup;
  }
  return run_state_request(request, arguments.json, console);
}

/// The socket of the server that the configuration or the options name; nothing else of the configuration is checked.
std::filesystem::path socket_of(const ServeArguments& arguments) {
  if (!arguments.unix_socket.empty()) return std::filesystem::absolute(arguments.unix_socket);
  if (arguments.state.empty() || !arguments.config.empty()) {
    if (const std::optional<server::Config> config = config_file_of(arguments)) return config->unix_socket;
  }
  return state_of(arguments) / "server.sock";
}

/// Asks the running server, which knows the user by the socket, for an address that signs one browser in.
cli::ExitCode run_sign_in(const ServeArguments& arguments, cli::Console& console) {
  const std::filesystem::path socket = socket_of(arguments);
  http::ReplyText answer;
  try {
    answer = ask_socket(socket, "POST", "/v1/sign_ins");
  } catch (const http::ClientError& error) {
    throw Error(fmt::format("no server answers: {}; start lowgear serve, or name its socket with --unix PATH",
                            printable(error.what())));
  }
  if (answer.status != 200) {
    throw Error(fmt::format("{}: the server refuses: {}", printable(socket.string()),
                            http::refusal_text(answer.status, answer.body)));
  }
  const Json document = parse_json(answer.body, "server");
  if (arguments.json) {
    console.print_json(document);
  } else {
    console.print(printable(document.at("url").get<std::string>()) + "\n");
  }
  return cli::ExitCode::ok;
}

cli::ExitCode run_serve(const ServeArguments& arguments, const CLI::App& app, cli::Console& console) {
  cli::refuse_options_of_other_actions(app, name(arguments.action), kOptionsOfServeActions);
  if (arguments.action == ServeAction::sign_in) return run_sign_in(arguments, console);
  if (arguments.action != ServeAction::run) return run_backup_or_restore(arguments, console);
  server::ProcessOptions options = options_of(arguments);
  options.shown_to_person = !arguments.json && ::isatty(STDOUT_FILENO) == 1;
  if (arguments.check) {
    server::check_server(options);
    if (arguments.json) {
      console.print_json({{"state", options.config.state.string()},
                          {"unix", options.config.unix_socket.string()},
                          {"policy", name(options.config.policy)}});
    } else {
      console.print(fmt::format("the configuration is valid; state in {}; policy of jobs that state none: {}\n",
                                options.config.state.string(), name(options.config.policy)));
    }
    return cli::ExitCode::ok;
  }
  // Until it serves, a signal ends it like SIGKILL, which loses nothing: all state is in the database.
  cli::end_on_signals();
  run_server(options, {.note = [&](std::string_view text) { console.note(text); },
                       .warn = [&](std::string_view text) { console.warn(text); },
                       .started =
                           [&](const server::Addresses& addresses) {
                             if (arguments.json) {
                               console.print_json(addresses_json(addresses, options));
                             } else {
                               console.print(addresses_text(addresses, options));
                             }
                           }});
  console.note(fmt::format("stopped; jobs continue once a server starts with {} again",
                           printable(options.config.state.string())));
  return cli::ExitCode::ok;
}

void add_listening_options(CLI::App& app, ServeArguments& arguments) {
  app.add_option("--listen", arguments.listen,
                 "TCP address and port to listen on; may be repeated. Addresses that other machines reach need tokens")
      ->type_name("ADDRESS:PORT");
  app.add_option("--listen-tls", arguments.listen_tls, "The same with TLS, for https://; may be repeated")
      ->type_name("ADDRESS:PORT");
  app.add_option("--tls-certificate", arguments.tls_certificate, "Certificate for --listen-tls, with its chain, in PEM")
      ->type_name("FILE");
  app.add_option("--tls-key", arguments.tls_key, "Key of that certificate, in PEM, mode 0600")->type_name("FILE");
  app.add_option(
         "--token-file", arguments.token_file,
         "File of access tokens: lines SCOPES TOKEN, with the scopes read, jobs and operate, separated by commas "
         "(train stands for read,jobs, and admin for all three), or node nodes=HOST,HOST TOKEN of agents")
      ->type_name("FILE");
}

void add_perseus_port_options(CLI::App& app, ServeArguments& arguments) {
  app.add_option("--perseus-listen", arguments.perseus_listen,
                 "TCP address and port for unmodified clients of Perseus and Zeus. They send no tokens: every program "
                 "that reaches it may use it")
      ->type_name("ADDRESS:PORT");
  app.add_option("--perseus-scheduler", arguments.perseus_scheduler, "Scheduler for the jobs of these clients")
      ->type_name("NAME")
      ->default_str("Lowgear");
  app.add_option("--perseus-args", arguments.perseus_args, "Arguments of that scheduler, as a JSON object")
      ->type_name("JSON");
  app.add_option("--perseus-mode", arguments.perseus_mode,
                 "Setting that the scheduler changes if it supports both: frequency or power limit")
      ->type_name("MODE")
      ->default_str("frequency");
  app.add_option(
         "--perseus-log-level", arguments.perseus_log_level,
         "DEBUG logs every request of these clients with its response; INFO, WARNING, ERROR and CRITICAL only failures")
      ->type_name("LEVEL")
      ->default_str("INFO");
  app.add_option("--perseus-dump-dir", arguments.perseus_dump_dir,
                 "Folder for the results of these jobs, one folder per job as Perseus' server writes it")
      ->type_name("DIR")
      ->default_str("perseus in the folder of --state");
  app.add_flag("--perseus-no-dump", arguments.perseus_no_dump, "Do not write results of these jobs")
      ->excludes("--perseus-dump-dir");
}

}  // namespace

cli::VerbAction declare_serve(CLI::App& app) {
  auto arguments = std::make_shared<ServeArguments>();
  cli::add_choice(
      app, "action", kServeActions,
      [arguments](std::size_t place) { arguments->action = static_cast<ServeAction>(place); },
      "run: serve; backup: copy the state of a server, which may run, into a new file; restore: make a state folder "
      "from such a file; sign-in: print an address that signs one browser of this machine in to the dashboard of a "
      "running server")
      ->default_str("run");
  app.add_option("file", arguments->file, "backup: file to write; restore: file to read")->type_name("FILE");
  app.add_option("--config", arguments->config,
                 "Configuration file; deploy/server.yaml (/usr/share/lowgear/server.yaml) explains it")
      ->type_name("FILE")
      ->default_str(fmt::format("{}, if it exists", server::kDefaultServerConfig));
  app.add_option("--state", arguments->state,
                 "Folder of the database (default: the configuration's, or ~/.local/state/lowgear-server)")
      ->type_name("DIR");
  app.add_option("--unix", arguments->unix_socket,
                 "Unix socket to listen on (default: the configuration's, or server.sock in the state folder)")
      ->type_name("PATH");
  add_listening_options(app, *arguments);
  add_perseus_port_options(app, *arguments);
  app.add_flag("--check", arguments->check, "Check the configuration and exit");
  app.add_flag("--final", arguments->final_backup,
               "backup: move a stopped server: no server starts from its folder any more, and the jobs continue where "
               "the file is restored");
  app.add_flag("--dry-run", arguments->dry_run, "backup, restore: check whether it is possible, and change nothing");
  cli::add_json_flag(app, arguments->json);
  cli::group_options(app, "Clients of Perseus",
                     {"--perseus-listen", "--perseus-scheduler", "--perseus-args", "--perseus-mode",
                      "--perseus-log-level", "--perseus-dump-dir", "--perseus-no-dump"});
  return [arguments, &app](cli::Console& console) { return run_serve(*arguments, app, console); };
}

}  // namespace lowgear::operations
