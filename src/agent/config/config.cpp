#include "agent/config/config.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/user_database.h"
#include "base/core/formats/yaml_section.h"
#include "base/core/units.h"
#include "hardware/gpu/gpu_setting.h"

namespace lowgear::agent {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20U;

std::optional<gid_t> parse_group(YamlSection& section, std::string_view key, const NameLookup& lookup) {
  const std::optional<std::string> group = section.text(key);
  if (!group) return std::nullopt;
  return section.look_up(key, [&] { return lookup.group(*group); });
}

ZeusdEvents parse_zeusd_events(YamlSection& section) {
  const std::string events = section.text("zeusd_events").value_or("device");
  if (events == "device") return ZeusdEvents::device;
  if (events == "snapshot") return ZeusdEvents::snapshot;
  section.fail_at("zeusd_events", fmt::format("{} is not known; write \"device\" for Zeus 0.16 and later, \"snapshot\" "
                                              "for Zeus 0.14 and 0.15",
                                              quote(events)));
}

bool is_ip_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

std::optional<http::TlsServerFiles> parse_metrics_tls(YamlSection& section) {
  const auto path = [&](std::string_view key) { return section.path(key).value_or(""); };
  const http::TlsServerFiles files{.certificate = path("metrics_tls_certificate"),
                                   .key = path("metrics_tls_key"),
                                   .client_ca = path("metrics_tls_client_ca")};
  if (files.certificate.empty() && files.key.empty() && files.client_ca.empty()) return std::nullopt;
  if (files.certificate.empty() || files.key.empty()) {
    section.fail_at("metrics_tls_certificate", "TLS needs metrics_tls_certificate and metrics_tls_key");
  }
  return files;
}

std::optional<MetricsAddress> parse_metrics(YamlSection& section) {
  const std::optional<std::string> address = section.text("metrics_address");
  if (address && !is_ip_address(*address)) {
    section.fail_at("metrics_address", fmt::format("{} is not an address, such as 0.0.0.0 or \"::\"", quote(*address)));
  }
  const auto port = section.integer_in("metrics_port", 1, 65535);
  if (address && !port) section.fail_at("metrics_address", "it needs a metrics_port");
  std::optional<http::TlsServerFiles> tls = parse_metrics_tls(section);
  if (tls && !port) section.fail_at("metrics_tls_certificate", "it needs a metrics_port");
  if (!port) return std::nullopt;
  return MetricsAddress{address.value_or("0.0.0.0"), static_cast<std::uint16_t>(*port), std::move(tls)};
}

void parse_sockets(YamlSection& section, ProcessOptions& options, const NameLookup& lookup) {
  options.agent.lease_server.socket = section.path("lease_socket").value_or("/run/lowgear/lease.sock");
  options.agent.lease_server.mode = section.file_mode("lease_mode").value_or(0660);
  options.http_socket = section.path("http_socket").value_or("/run/lowgear/agent.sock");
  options.http_mode = section.file_mode("http_mode").value_or(0660);
  options.agent.lease_server.group = options.http_group = parse_group(section, "group", lookup);
  if (const auto port = section.integer_in("http_port", 1, 65535))
    options.http_port = static_cast<std::uint16_t>(*port);
  options.metrics = parse_metrics(section);
  options.zeusd_events = parse_zeusd_events(section);
  section.finish();
}

void parse_limits(YamlSection& section, Options& options) {
  const auto milliseconds = [](double seconds) { return std::chrono::milliseconds(static_cast<long>(seconds * 1e3)); };
  if (const auto clients = section.integer_in("max_clients", 1, 4096)) {
    options.lease_server.max_connections = static_cast<std::size_t>(*clients);
  }
  if (const auto mebibytes = section.number_in("max_plan_mb", 0.01, 64)) {
    options.lease_server.max_frame_bytes = static_cast<std::size_t>(*mebibytes * 1024 * 1024);
  }
  if (const auto seconds = section.number_in("suspend_after_s", 0.1, 86'400)) {
    options.worker.suspend_after = milliseconds(*seconds);
  }
  if (const auto seconds = section.number_in("driver_timeout_s", 0.1, 600))
    options.driver_timeout = milliseconds(*seconds);
  if (const auto seconds = section.number_in("hung_after_s", 0.1, 600)) options.hung_after = milliseconds(*seconds);
  section.finish();
}

void parse_mps(YamlSection& section, MpsOptions& options, const NameLookup& lookup) {
  constexpr int kMostPercent = 1'000;
  options.gpus = section.texts("gpus");
  const std::optional<gid_t> group = parse_group(section, "group", lookup);
  if (!options.gpus.empty() && !group) {
    section.fail("\"group\" is missing: the group whose users may use the daemons and ask for shares");
  }
  options.group = group.value_or(0);
  if (std::ranges::find(options.gpus, "all") != options.gpus.end()) {
    section.fail_at("gpus", "\"all\" is not accepted: name each GPU by its UUID or PCI address");
  }
  if (const auto folder = section.path("folder")) options.folder = *folder;
  if (const auto program = section.path("program")) options.program = *program;
  if (const auto percent = section.integer_in("max_percent", 1, kMostPercent)) options.max_percent = *percent;
  if (const auto seconds = section.integer_in("answer_s", 1, 600)) options.answer = std::chrono::seconds(*seconds);
  if (const auto seconds = section.integer_in("grace_s", 0, 60)) options.grace = std::chrono::seconds(*seconds);
  section.finish();
}

std::optional<PowerShareOptions> parse_power_share(YamlSection& section) {
  const std::optional<std::string> server = section.text("server");
  PowerShareOptions options;
  if (const auto file = section.path("token_file")) options.token_file = *file;
  if (const auto file = section.path("ca_file")) options.ca_file = *file;
  const std::optional<double> safe_w = section.number_in("safe_w", 1, gpu::kMaxPowerW);
  options.host = section.text("host").value_or(host_name());
  if (server && !safe_w) section.fail("\"safe_w\" is missing: the power limit of each GPU while the server is away");
  if (!server && (safe_w || !options.token_file.empty() || !options.ca_file.empty()))
    section.fail("\"server\" is missing");
  const bool is_name = !options.host.empty() &&
                       options.host.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == std::string::npos;
  if (server && !is_name) section.fail_at("host", fmt::format("{} is not a host's name", quote(options.host)));
  section.finish();
  if (!server) return std::nullopt;
  options.server = section.look_up("server", [&] { return http::Endpoint::parse(*server); });
  options.safe_w = *safe_w;
  return options;
}

std::vector<std::string> parse_gpu(YamlSection& section) {
  std::vector<std::string> names = section.texts("id");
  if (names.empty()) section.fail("\"id\" is missing: UUID or PCI address of the GPU, or \"all\"");
  section.finish();
  return names;
}

AllowRule parse_allow(YamlSection& section, const NameLookup& lookup) {
  AllowRule rule;
  if (const auto user = section.text("user")) {
    rule.user = section.look_up("user", [&] { return lookup.user(*user); });
  }
  rule.group = parse_group(section, "group", lookup);
  rule.everybody = section.boolean("everybody").value_or(false);
  rule.gpus = section.texts("gpus");
  rule.min_clock_mhz = section.integer_in("min_clock_mhz", 1, kMaxClockMhz);
  rule.max_clock_mhz = section.integer_in("max_clock_mhz", 1, kMaxClockMhz);
  rule.power = section.boolean("power").value_or(false);
  rule.min_power_w = section.number_in("min_power_w", 1, gpu::kMaxPowerW);
  rule.max_power_w = section.number_in("max_power_w", 1, gpu::kMaxPowerW);
  rule.memory_clocks = section.boolean("memory_clocks").value_or(false);
  rule.persistence = section.boolean("persistence").value_or(false);
  rule.workload_power_profiles = section.boolean("workload_power_profiles").value_or(false);
  rule.power_smoothing = section.boolean("power_smoothing").value_or(false);
  rule.control = section.boolean("control").value_or(true);
  rule.read = section.boolean("read").value_or(true);
  section.finish();
  if ((rule.user ? 1 : 0) + (rule.group ? 1 : 0) + (rule.everybody ? 1 : 0) != 1) {
    section.fail("needs one of user, group and everybody: true");
  }
  if (rule.min_clock_mhz && rule.max_clock_mhz && *rule.min_clock_mhz > *rule.max_clock_mhz) {
    section.fail("min_clock_mhz is above max_clock_mhz");
  }
  if (rule.min_power_w && rule.max_power_w && *rule.min_power_w > *rule.max_power_w) {
    section.fail("min_power_w is above max_power_w");
  }
  return rule;
}

}  // namespace

Config parse_agent_config(std::string_view text, const std::string& source, const NameLookup& lookup) {
  YamlSection root = YamlSection::parse(text, source);
  Config config;
  YamlSection sockets = root.section("sockets");
  parse_sockets(sockets, config.process, lookup);
  YamlSection limits = root.section("limits");
  parse_limits(limits, config.process.agent);
  YamlSection mps = root.section("mps");
  parse_mps(mps, config.process.mps, lookup);
  YamlSection power_share = root.section("power_share");
  config.process.power_share = parse_power_share(power_share);
  config.process.agent.shares_power = config.process.power_share.has_value();
  if (const auto journal = root.path("journal")) config.journal = *journal;
  if (const auto folder = root.path("clock_log")) config.clock_log = *folder;
  if (const auto rate_hz = root.number_in("telemetry_hz", 0.1, 100)) config.process.agent.telemetry_rate_hz = *rate_hz;
  for (YamlSection& gpu : root.sections("gpu")) {
    for (std::string& name : parse_gpu(gpu)) {
      if (name == "all") {
        config.all_gpus = true;
      } else {
        config.gpus.push_back(std::move(name));
      }
    }
  }
  for (YamlSection& allow : root.sections("allow")) config.allow.push_back(parse_allow(allow, lookup));
  root.finish();
  return config;
}

Config load_agent_config(const std::filesystem::path& path) {
  return parse_agent_config(read_file(require_trusted(path), kMaxConfigBytes), path.string(), system_name_lookup());
}

}  // namespace lowgear::agent
