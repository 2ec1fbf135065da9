#include "server/server_config.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/user_database.h"
#include "base/core/formats/yaml_section.h"
#include "base/core/numbers/number.h"
#include "server/perseus/settings.h"
#include "server/planning/planning_inputs.h"

namespace lowgear::server {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20U;

bool is_address(const std::string& text, int family) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(family, text.c_str(), bytes.data()) == 1;
}

[[noreturn]] void refuse_address(std::string_view text) {
  throw InputError(
      fmt::format("{} is not an address and a port, such as 127.0.0.1:7787 or \"[::1]:7787\"", quote(text)));
}

/// A path that does not depend on where the server was started.
std::optional<std::filesystem::path> absolute_path(YamlSection& section, std::string_view key) {
  std::optional<std::filesystem::path> path = section.path(key);
  if (path && (!path->is_absolute() || path->native().find('\0') != std::string::npos)) {
    section.fail_at(key, "expected a path that begins with /");
  }
  return path;
}

void parse_listen(YamlSection section, Config& config, const NameLookup& lookup) {
  if (const auto path = absolute_path(section, "unix")) config.unix_socket = *path;
  config.unix_mode = section.file_mode("unix_mode").value_or(config.unix_mode);
  if (const auto group = section.text("unix_group")) {
    config.unix_group = section.look_up("unix_group", [&] { return lookup.group(*group); });
  }
  for (const std::string& text : section.texts("tcp")) {
    config.tcp.push_back(section.look_up("tcp", [&] { return parse_tcp_address(text); }));
  }
  for (const std::string& text : section.texts("tls")) {
    config.tls.push_back(section.look_up("tls", [&] { return parse_tcp_address(text); }));
  }
  config.token_file = absolute_path(section, "token_file");
  config.loopback_read = section.boolean("loopback_read").value_or(false);
  section.finish();
}

void parse_tls(YamlSection section, http::TlsServerFiles& files) {
  if (const auto path = absolute_path(section, "certificate")) files.certificate = *path;
  if (const auto path = absolute_path(section, "key")) files.key = *path;
  if (const auto path = absolute_path(section, "client_ca")) files.client_ca = *path;
  section.finish();
}

void parse_limits(YamlSection section, Config& config) {
  const auto bytes = [](double mebibytes) { return static_cast<std::size_t>(mebibytes * 1024 * 1024); };
  if (const auto mebibytes = section.number_in("max_body_mb", 0.01, 256))
    config.http.limits.body_bytes = bytes(*mebibytes);
  if (const auto count = section.integer_in("max_connections", 1, 1'000'000)) {
    config.http.max_connections = static_cast<std::size_t>(*count);
  }
  if (const auto count = section.integer_in("max_streams", 0, 1'000'000)) {
    config.http.max_streams = static_cast<std::size_t>(*count);
  }
  http::RateLimit& rate = config.http.rate_limit;
  rate.requests_per_s = section.number_in("requests_per_s", 0, 1e9).value_or(rate.requests_per_s);
  rate.burst = section.number_in("burst", 1, 1e9).value_or(std::max(1.0, rate.requests_per_s));
  if (const auto seconds = section.number_in("request_timeout_s", 0.1, 3'600)) {
    config.http.request_timeout = std::chrono::milliseconds(static_cast<long>(*seconds * 1e3));
  }
  config.max_jobs = section.integer_in("max_jobs", 1, 1'000'000).value_or(config.max_jobs);
  config.max_ranks = section.integer_in("max_ranks", 1, 10'000'000).value_or(config.max_ranks);
  config.max_job_units =
      section.integer_in("max_job_units", 2, static_cast<int>(kMaxJobActions)).value_or(config.max_job_units);
  config.max_units = section.integer_in("max_units", 2, 1'000'000'000).value_or(config.max_units);
  config.max_node_w = section.number_in("max_node_w", 1, 1e6).value_or(config.max_node_w);
  section.finish();
}

void parse_retention(YamlSection section, StoreRetention& retention) {
  if (const auto iterations = section.integer_in("iterations", 100, 100'000'000)) retention.iterations = *iterations;
  retention.plans = section.integer_in("plans", 10, 1'000'000).value_or(retention.plans);
  retention.finished_days = section.number_in("finished_days", 0, 36'500).value_or(retention.finished_days);
  retention.usage_days = section.number_in("usage_days", 1, 36'500).value_or(retention.usage_days);
  retention.budget_days = section.number_in("budget_days", 0, 36'500).value_or(retention.budget_days);
  section.finish();
}

void parse_perseus(YamlSection section, PerseusConfig& config) {
  if (const auto address = section.text("listen")) {
    config.listen = section.look_up("listen", [&] { return parse_tcp_address(*address); });
  }
  if (const auto scheduler = section.text("scheduler")) {
    (void)section.look_up("scheduler", [&] { return perseus::default_perseus_mode(*scheduler); });
    config.scheduler = *scheduler;
  }
  config.scheduler_args = section.text("scheduler_args").value_or(config.scheduler_args);
  config.mode = section.text("mode").value_or(config.mode);
  if (const auto level = section.text("log_level")) {
    (void)section.look_up("log_level", [&] { return perseus::read_perseus_log_level(*level); });
    config.log_level = *level;
  }
  config.dump = section.boolean("dump").value_or(config.dump);
  if (const auto path = absolute_path(section, "dump_dir")) config.dump_dir = *path;
  section.finish();
}

void parse_audit(YamlSection section, AuditConfig& config) {
  config.keep = section.boolean("keep").value_or(config.keep);
  if (const auto path = absolute_path(section, "file")) config.file = *path;
  if (const auto mebibytes = section.number_in("max_mb", 0.01, 100'000)) {
    config.max_bytes = static_cast<std::size_t>(*mebibytes * 1024 * 1024);
  }
  config.files = section.integer_in("files", 1, 1'000).value_or(config.files);
  section.finish();
}

/// Of `scopes`, a list, or of `role`, a name of several.
Scopes parse_scopes_of(YamlSection& section) {
  const std::optional<std::string> role = section.text("role");
  const std::vector<std::string> names = section.texts("scopes");
  if (role.has_value() != names.empty()) {
    section.fail("needs scopes, such as [read, jobs], or a role: read, train or admin");
  }
  const auto parsed = parse_scopes(role ? *role : fmt::format("{}", fmt::join(names, ",")));
  if (parsed && parsed->contain(Scope::node)) {
    section.fail_at("scopes", "only tokens have the scope node, as they name their nodes; root needs no scope for it");
  }
  if (parsed) return *parsed;
  if (!role) section.fail_at("scopes", "the scopes are read, jobs and operate; name each at most once");
  section.fail_at("role", fmt::format("there is no role {}; there are read, train and admin", quote(*role)));
}

PeerRule parse_allow(YamlSection section, const NameLookup& lookup) {
  PeerRule rule;
  rule.scopes = parse_scopes_of(section);
  if (const auto user = section.text("user")) {
    rule.user = section.look_up("user", [&] { return lookup.user(*user); });
  }
  if (const auto group = section.text("group")) {
    rule.group = section.look_up("group", [&] { return lookup.group(*group); });
  }
  rule.everybody = section.boolean("everybody").value_or(false);
  section.finish();
  if ((rule.user ? 1 : 0) + (rule.group ? 1 : 0) + (rule.everybody ? 1 : 0) != 1) {
    section.fail("needs one of user, group and everybody: true");
  }
  return rule;
}

protocol::JobPolicy parse_policy(const YamlSection& root, const std::string& text) {
  const auto policy = protocol::find_job_policy(text);
  std::vector<std::string_view> known(protocol::kJobPolicies.begin(), protocol::kJobPolicies.end());
  std::erase(known, name(protocol::JobPolicy::steps));
  if (policy == protocol::JobPolicy::steps) {
    root.fail_at("policy", fmt::format("steps is of jobs that plan their own steps and state it: use one of {}",
                                       fmt::join(known, ", ")));
  }
  if (policy) return *policy;
  root.fail_at("policy", fmt::format("there is no policy {}; there are {}", quote(text), fmt::join(known, ", ")));
}

}  // namespace

http::ServerOptions default_http_options() {
  http::ServerOptions options;
  options.limits.body_bytes = std::size_t{16} << 20U;
  options.max_connections = 32'768;  // a rank has two, one of which waits for plans: a job of 10,000 ranks fits
  return options;
}

bool TcpAddress::is_loopback() const { return address == "::1" || address.starts_with("127."); }

std::string TcpAddress::loopback_name() const {
  if (is_loopback()) return address;
  return address == "0.0.0.0" ? "127.0.0.1" : address == "::" ? "::1" : "";
}

TcpAddress parse_tcp_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse_address(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool is_digits = !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  const std::optional<long long> port = is_digits ? parse_integer(digits) : std::nullopt;
  if (!port || *port > 65'535) refuse_address(text);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.find('\0') != std::string_view::npos) refuse_address(text);
  TcpAddress result{std::string(host), static_cast<std::uint16_t>(*port)};
  if (!is_address(result.address, bracketed ? AF_INET6 : AF_INET)) refuse_address(text);
  return result;
}

void require_safe_listening(const Config& config) {
  if (!config.tls.empty() && (config.tls_files.certificate.empty() || config.tls_files.key.empty())) {
    throw InputError("listen.tls needs a certificate and a key; name them in tls");
  }
  if (config.token_file) return;
  for (const std::vector<TcpAddress>* addresses : {&config.tcp, &config.tls}) {
    const auto open = std::ranges::find_if(*addresses, [](const TcpAddress& each) { return !each.is_loopback(); });
    if (open == addresses->end()) continue;
    throw InputError(fmt::format(
        "{} can be reached from other machines; name a token_file, or listen on 127.0.0.1 only", open->address));
  }
}

Config parse_server_config(std::string_view text, const std::string& source, const NameLookup& lookup) {
  YamlSection root = YamlSection::parse(text, source);
  Config config;
  if (const auto path = absolute_path(root, "state")) config.state = *path;
  if (const auto policy = root.text("policy")) config.policy = parse_policy(root, *policy);
  config.planning_threads = root.integer_in("planning_threads", 1, 256).value_or(config.planning_threads);
  config.planning_times.limit_s = root.number_in("planning_limit_s", 1, 86'400).value_or(config.planning_times.limit_s);
  YamlSection listen = root.section("listen");
  parse_listen(listen, config, lookup);
  parse_tls(root.section("tls"), config.tls_files);
  listen.look_up("tcp", [&] { require_safe_listening(config); });
  parse_limits(root.section("limits"), config);
  parse_retention(root.section("retention"), config.retention);
  parse_perseus(root.section("perseus"), config.perseus);
  parse_audit(root.section("audit"), config.audit);
  for (const YamlSection& allow : root.sections("allow")) config.allow.push_back(parse_allow(allow, lookup));
  root.finish();
  return config;
}

Config load_server_config(const std::filesystem::path& path) {
  return parse_server_config(read_file(require_trusted(path), kMaxConfigBytes), path.string(), system_name_lookup());
}

}  // namespace lowgear::server
