#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "core/error.h"
#include "server/server_process.h"

namespace lowgear {
namespace {

struct ServeArguments {
  std::string config;
  std::string state;
  std::string unix_socket;
  std::vector<std::string> listen;
  std::string token_file;
  std::string perseus_listen;
  std::string perseus_scheduler = "Lowgear";
  std::string perseus_args;
  std::string perseus_mode = "frequency";
  bool check = false;
  bool json = false;
};

/// The configuration file, where there is one, and what options say in its stead.
ServerConfig config_of(const ServeArguments& arguments) {
  ServerConfig config;
  if (!arguments.config.empty()) {
    config = load_server_config(arguments.config);
  } else if (std::filesystem::exists(kDefaultServerConfig)) {
    config = load_server_config(kDefaultServerConfig);
  }
  if (!arguments.state.empty()) config.state = std::filesystem::absolute(arguments.state);
  if (!arguments.unix_socket.empty()) config.unix_socket = std::filesystem::absolute(arguments.unix_socket);
  if (!arguments.token_file.empty()) config.token_file = std::filesystem::absolute(arguments.token_file);
  if (!arguments.listen.empty()) config.tcp.clear();
  for (const std::string& address : arguments.listen) config.tcp.push_back(parse_tcp_address(address));
  require_tokens(config);
  return config;
}

ServerProcessOptions options_of(const ServeArguments& arguments) {
  ServerProcessOptions options{.config = config_of(arguments), .perseus = {}};
  if (!arguments.perseus_listen.empty()) {
    options.perseus = PerseusPort{
        .listen = parse_tcp_address(arguments.perseus_listen),
        .settings = read_perseus_settings(arguments.perseus_scheduler, arguments.perseus_args, arguments.perseus_mode)};
  }
  return options;
}

Json addresses_json(const ServerAddresses& addresses) {
  return {{"unix", addresses.unix_socket.string()},
          {"tcp", addresses.tcp},
          {"perseus", addresses.perseus ? Json(*addresses.perseus) : Json(nullptr)}};
}

std::string addresses_text(const ServerAddresses& addresses) {
  std::string text = fmt::format("serving on unix:{}", addresses.unix_socket.string());
  for (const std::string& url : addresses.tcp) text += fmt::format(", {}", url);
  if (addresses.perseus) text += fmt::format("; the Perseus protocol on {}", *addresses.perseus);
  return text + "\n";
}

ExitCode run_serve(const ServeArguments& arguments, Console& console) {
  const ServerProcessOptions options = options_of(arguments);
  if (arguments.check) {
    if (options.config.token_file) (void)load_tokens(*options.config.token_file);
    if (arguments.json) {
      console.print_json({{"state", options.config.state.string()}, {"unix", options.config.unix_socket.string()}});
    } else {
      console.print(fmt::format("the configuration is right; state in {}\n", options.config.state.string()));
    }
    return ExitCode::ok;
  }
  // Until it serves, a signal ends it like a SIGKILL, which costs nothing: what counts is in the database.
  end_on_signals();
  run_server(options, {.note = [&](std::string_view text) { console.note(text); },
                       .warn = [&](std::string_view text) { console.warn(text); },
                       .started =
                           [&](const ServerAddresses& addresses) {
                             if (arguments.json) {
                               console.print_json(addresses_json(addresses));
                             } else {
                               console.print(addresses_text(addresses));
                             }
                           }});
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_serve(CLI::App& app) {
  auto arguments = std::make_shared<ServeArguments>();
  app.add_option("--config", arguments->config, "Configuration; see deploy/server.toml")
      ->type_name("FILE")
      ->default_str(fmt::format("{}, when it is there", kDefaultServerConfig));
  app.add_option("--state", arguments->state, "Folder of the database")->type_name("FOLDER");
  app.add_option("--unix", arguments->unix_socket, "Unix socket to listen on")->type_name("PATH");
  app.add_option("--listen", arguments->listen,
                 "Address and port to listen on, also several times; beyond this machine only with tokens")
      ->type_name("ADDRESS:PORT");
  app.add_option("--token-file", arguments->token_file, "Lines ROLE TOKEN; roles are read, train and admin")
      ->type_name("FILE");
  app.add_option(
         "--perseus-listen", arguments->perseus_listen,
         "Address and port for unchanged clients of Perseus and Zeus; they know no tokens, so whoever reaches it "
         "may use it")
      ->type_name("ADDRESS:PORT");
  app.add_option("--perseus-scheduler", arguments->perseus_scheduler, "Scheduler of these clients' jobs")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--perseus-args", arguments->perseus_args, "Its arguments, a JSON object")->type_name("JSON");
  app.add_option("--perseus-mode", arguments->perseus_mode, "frequency, or power limit")
      ->type_name("MODE")
      ->capture_default_str();
  app.add_flag("--check", arguments->check, "Look at the configuration, and end");
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_serve(*arguments, console); };
}

}  // namespace lowgear
