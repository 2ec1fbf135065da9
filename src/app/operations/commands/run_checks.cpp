#include "app/operations/commands/run_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <system_error>

#include "app/operations/doctor/agent_reach.h"
#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/http/client/client.h"
#include "base/http/tls/tls_credentials.h"
#include "client/server/server_addresses.h"
#include "client/server/server_messages.h"

namespace lowgear::operations {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kServerPatience{2};
constexpr int kUnauthorized = 401;
constexpr int kForbidden = 403;

/// What a server says to the token of the job's ranks.
struct ServerAnswer {
  std::string unreachable;  ///< why it gives no answer; empty: it gives one
  std::string refusal;      ///< why it takes no job with this token; empty: it takes one
};

ServerAnswer ask(const http::Endpoint& server, const http::Client::HeaderList& headers) {
  try {
    http::ClientOptions options{.connect_timeout = kServerPatience};
    if (server.tls) options.tls = http::tls_files_from_environment(process_environment());
    // Without the members of a profile's key the server answers with an error, but only to ranks.
    const http::ReplyText reply =
        http::Client(server, options).request("GET", "/v1/profile", {}, headers, kServerPatience);
    const bool refuses = reply.status == kUnauthorized || reply.status == kForbidden;
    return {.unreachable = {}, .refusal = refuses ? client::refusal_of(reply.status, reply.body, server) : ""};
  } catch (const std::exception& error) {
    return {.unreachable = error.what(), .refusal = {}};
  }
}

void check_servers(const std::string& servers, std::vector<std::string>& missing) {
  const fs::path token_file = http::token_file_from_environment(process_environment());
  http::Client::HeaderList headers;
  try {
    headers = http::token_headers(token_file);
  } catch (const InputError& error) {
    missing.push_back(
        fmt::format("LOWGEAR_SERVER_TOKEN_FILE: {}; without a token no server plans this job", error.what()));
    return;
  }
  if (const auto exposure = http::token_exposure(token_file)) {
    missing.push_back(
        fmt::format("LOWGEAR_SERVER_TOKEN_FILE: {}; without --strict it is used all the same", *exposure));
  }
  std::vector<std::string> problems;
  for (const http::Endpoint& server : client::parse_server_addresses(servers)) {
    const ServerAnswer answer = ask(server, headers);
    if (!answer.refusal.empty()) {
      missing.push_back(
          fmt::format("the server {} refuses this job, which is not planned: {}", server.text(), answer.refusal));
    }
    if (answer.unreachable.empty()) return;  // the job finds the one that answers
    problems.push_back(answer.unreachable);
  }
  missing.push_back(fmt::format(
      "no server answers ({}): start lowgear serve, or correct the address; until one answers no job is planned",
      fmt::join(problems, "; ")));
}

void check_agent(std::vector<std::string>& missing) {
  const auto problem = doctor::agent_problem(process_environment());
  if (!problem) return;
  missing.push_back(fmt::format("no agent answers on this machine, so clocks stay as they are here: {}; {}",
                                problem->what, problem->next_step));
}

/// Why no recording can be made in a folder; empty: one can. Leaves nothing behind, as ranks make the folder.
std::string recording_problem(const fs::path& folder) {
  std::error_code error;
  if (!recordings_in(folder).empty()) return "it has a recording";
  if (fs::exists(folder, error)) {
    if (!fs::is_directory(folder, error)) return "it is not a folder";
    return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : std::generic_category().message(errno);
  }
  fs::path missing = folder;
  while (!fs::exists(missing.parent_path(), error)) missing = missing.parent_path();
  // Only making it tells: root may write to any folder, and /proc takes none.
  if (::mkdir(missing.c_str(), 0777) == 0) {
    ::rmdir(missing.c_str());
    return "";
  }
  return errno == EEXIST ? ""
                         : fmt::format("{}: {}", printable(missing.string()), std::generic_category().message(errno));
}

void check_recording(const fs::path& folder, std::vector<std::string>& missing) {
  const std::string problem = recording_problem(fs::absolute(folder));
  if (problem.empty()) return;
  missing.push_back(fmt::format("nothing can be recorded in {}: {}; name another folder (--record, LOWGEAR_RECORDING)",
                                printable(folder.string()), problem));
}

}  // namespace

std::vector<std::string> missing_needs(const AttachedNeeds& needs) {
  std::vector<std::string> missing;
  if (!needs.servers.empty()) check_servers(needs.servers, missing);
  if (needs.agent) check_agent(missing);
  if (!needs.recording.empty()) check_recording(needs.recording, missing);
  return missing;
}

void warn_of_token(const fs::path& named, cli::Console& console) {
  const auto exposure = http::token_exposure(http::token_file_from_environment(process_environment(), named));
  if (exposure) console.warn(*exposure);
}

Recordings recordings_in(const fs::path& folder) {
  Recordings found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") || name.starts_with("part-")) found.emplace(name, entry.last_write_time(error));
  }
  return found;
}

}  // namespace lowgear::operations
