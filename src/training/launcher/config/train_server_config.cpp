#include "training/launcher/config/train_server_config.h"

#include <fmt/format.h>

#include "base/core/error.h"
#include "client/server/server_addresses.h"
#include "training/launcher/config/yaml_members.h"

namespace lowgear::launcher {
namespace {

namespace fs = std::filesystem;

void read_server_profile(const YamlView& map, TrainServerConfig& server) {
  map.require_only(
      {"clocks", "iterations", "settle_iterations", "min_mhz", "max_mhz", "allowance_pct", "allowance_iterations"});
  read_optional(map, "clocks", 0, 1000, server.profile_clocks);
  read_optional(map, "iterations", 1, 100'000, server.profile_iterations);
  read_optional(map, "settle_iterations", 0, 1000, server.settle_iterations);
  read_optional(map, "allowance_pct", 0, 1'000, server.allowance_pct);
  read_optional(map, "allowance_iterations", 1, 1'000'000, server.allowance_iterations);
  if (map.has("min_mhz")) server.min_mhz = int_in(map.at("min_mhz"), 1, 100'000);
  if (map.has("max_mhz")) server.max_mhz = int_in(map.at("max_mhz"), server.min_mhz.value_or(1), 100'000);
}

/// EnvPipe's is energy.policy, which has settings; a job that plans its own steps has energy.steps.
protocol::JobPolicy server_policy(const YamlView& view) {
  const auto policy = protocol::find_job_policy(view.text());
  if (policy != protocol::JobPolicy::lowgear && policy != protocol::JobPolicy::perseus) {
    view.fail(fmt::format("the policy {} is not stated here", quote(view.text())),
              "write lowgear or perseus; for EnvPipe's, energy.policy: envpipe; for clocks of each step, energy.steps");
  }
  return *policy;
}

std::string server_address(const YamlView& view) {
  std::string addresses = view.text();
  try {
    (void)client::parse_server_addresses(addresses);
  } catch (const InputError& error) {
    view.fail(error.what());
  }
  return addresses;
}

}  // namespace

TrainServerConfig read_train_server(const YamlView& map, const fs::path& folder) {
  map.require_only({"address", "token_file", "ca_file", "name", "policy", "slowdown_pct", "guard_pct",
                    "switch_latency_ms", "profile"});
  TrainServerConfig server;
  server.address = server_address(map.at("address"));
  read_optional(map, "token_file", folder, server.token_file);
  read_optional(map, "ca_file", folder, server.ca_file);
  if (map.has("name")) server.name = map.at("name").text();
  if (map.has("policy")) server.policy = server_policy(map.at("policy"));
  read_optional(map, "slowdown_pct", 0, 1000, server.slowdown_pct);
  read_optional(map, "guard_pct", 0, 1000, server.guard_pct);
  read_optional(map, "switch_latency_ms", 0, 10'000, server.switch_latency_ms);
  if (map.has("profile")) read_server_profile(map.at("profile"), server);
  return server;
}

}  // namespace lowgear::launcher
