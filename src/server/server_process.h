#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/perseus/settings.h"
#include "server/server_config.h"

namespace lowgear::server {

/// A port of its own for clients of the Perseus protocol, which knows no tokens: whoever reaches it may use it.
struct PerseusPort {
  TcpAddress listen;
  perseus::Settings settings;
};

struct ProcessOptions {
  Config config;
  std::optional<PerseusPort> perseus;
  /// Whether a person sees the first lines, as at a terminal: then they may show a secret.
  bool shown_to_person = false;
};

/// Where a server that has started can be reached.
struct Addresses {
  std::filesystem::path unix_socket;
  std::vector<std::string> tcp;  ///< `http://127.0.0.1:7787`, `https://192.0.2.1:7788`
  std::optional<std::string> perseus;
  /// Where browsers of this machine find the dashboard and have to sign in; with a one-time token if a person sees it.
  std::optional<std::string> dashboard;
};

struct Messages {
  std::function<void(std::string_view)> note;
  std::function<void(std::string_view)> warn;
  /// Called once, when the server answers.
  std::function<void(const Addresses&)> started;
};

/// Reads all files that serving reads, but the database, and writes nothing. Throws InputError when one cannot be used,
/// or the jobs of the state folder have moved.
void check_server(const ProcessOptions& options);

/// Serves until SIGTERM, SIGINT or SIGHUP, then lets requests at hand finish. These are caught once it answers: until
/// then they have the effect that the caller gave them. Throws InputError when the options cannot be used (an address
/// that is taken, a state folder of another server), and Error when the system refuses.
void run_server(const ProcessOptions& options, const Messages& messages);

}  // namespace lowgear::server
