#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/files/user_database.h"
#include "base/http/server/server.h"
#include "base/http/tls/tls_credentials.h"
#include "protocol/job_spec.h"
#include "server/http/authentication.h"
#include "server/planning/planning_threads.h"
#include "server/store/store_tables.h"

namespace lowgear::server {

/// Where the server looks for its configuration.
inline constexpr const char* kDefaultServerConfig = "/etc/lowgear/server.yaml";

/// An address of IPv4 or IPv6 and a port to listen on.
struct TcpAddress {
  std::string address;
  std::uint16_t port = 0;  ///< 0: any that is free

  [[nodiscard]] bool is_loopback() const;
  /// The address by which this machine itself reaches it over the loopback interface; empty: it does not.
  [[nodiscard]] std::string loopback_name() const;
};

/// `127.0.0.1:7787` or `[::1]:7787`. Throws InputError, without a place, for anything else; names are not looked up.
[[nodiscard]] TcpAddress parse_tcp_address(std::string_view text);

/// With room for the largest body, a registration that brings its schedule in full: some megabytes.
[[nodiscard]] http::ServerOptions default_http_options();

/// The port for clients of Perseus and Zeus, as it is configured; `read_perseus_settings` looks at the scheduler.
struct PerseusConfig {
  std::optional<TcpAddress> listen;  ///< none: there is no such port
  std::string scheduler = "Lowgear";
  std::string scheduler_args;      ///< a JSON object; empty: none
  std::string mode;                ///< empty: default_perseus_mode
  std::string log_level;           ///< empty: INFO
  bool dump = true;                ///< whether results are written
  std::filesystem::path dump_dir;  ///< empty: `perseus` in the folder of the state
};

/// The audit log (server/http/audit_log.h).
struct AuditConfig {
  bool keep = true;
  std::filesystem::path file;                      ///< empty: `audit.jsonl` in the folder of the state
  std::size_t max_bytes = std::size_t{64} << 20U;  ///< of a file, before a new one is begun
  int files = 8;                                   ///< that are kept, the present one included
};

/// The server's configuration, as deploy/server.yaml explains it. Closed by default: it listens on a Unix socket, which
/// only root and its own user may use.
struct Config {
  std::filesystem::path state = "/var/lib/lowgear-server";
  std::filesystem::path unix_socket = "/run/lowgear-server/server.sock";
  mode_t unix_mode = 0660;
  std::optional<gid_t> unix_group;
  std::vector<TcpAddress> tcp;
  std::vector<TcpAddress> tls;     ///< addresses on which TLS is spoken
  http::TlsServerFiles tls_files;  ///< for these
  std::optional<std::filesystem::path> token_file;
  bool loopback_read = false;  ///< AuthenticationRules
  std::vector<PeerRule> allow;
  http::ServerOptions http = default_http_options();
  int max_jobs = 1'000;           ///< that have not finished; one more is refused
  int max_ranks = 100'000;        ///< of all these jobs together
  int max_job_units = 1'000'000;  ///< forwards and backwards of an iteration of one job
  int max_units = 10'000'000;     ///< of all jobs that have not finished
  double max_node_w = 12'000;     ///< largest sum of the power limits of a node's GPUs
  StoreRetention retention;
  protocol::JobPolicy policy = protocol::JobPolicy::lowgear;  ///< of jobs that state none
  int planning_threads = 1;
  PlanningTimes planning_times;
  PerseusConfig perseus;
  AuditConfig audit;
};

/// Reads a configuration. Throws InputError with file, line and column on a syntax error, an unknown key (naming the
/// nearest known one), a value of the wrong kind or out of range, and a user or group that does not exist.
[[nodiscard]] Config parse_server_config(std::string_view text, const std::string& source, const NameLookup& lookup);

/// Reads the file. Throws InputError also when another user could have changed it (base/core/files/user_database.h),
/// and as `require_safe_listening`.
[[nodiscard]] Config load_server_config(const std::filesystem::path& path);

/// Throws InputError when others than this machine's could reach the server without a token (it listens beyond the
/// loopback interface and has no token file), or when it is to speak TLS without a certificate.
void require_safe_listening(const Config& config);

}  // namespace lowgear::server
