#include "agent/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/known_names.h"

namespace lowgear::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Config parse(const std::string& text) { return parse_agent_config(text, "agent.yaml", known_names()); }

void expect_refused(const std::string& text, const std::string& words) {
  EXPECT_THAT(error_of([&] { (void)parse(text); }), HasSubstr(words)) << text;
}

TEST(AgentConfig, IsClosedWhenItIsEmpty) {
  const Config config = parse("");
  EXPECT_TRUE(config.gpus.empty());
  EXPECT_FALSE(config.all_gpus);
  EXPECT_TRUE(config.allow.empty());
  EXPECT_EQ(config.process.agent.lease_server.mode, 0660U);
  EXPECT_EQ(config.process.http_socket, "/run/lowgear/agent.sock");
  EXPECT_FALSE(config.process.http_port);
  EXPECT_FALSE(config.process.metrics);
}

TEST(AgentConfig, MetricsAreReadFromOtherMachinesWhereItSaysSo) {
  const auto metrics = parse("sockets:\n  metrics_port: 9401").process.metrics;
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->address, "0.0.0.0");
  EXPECT_EQ(metrics->port, 9401);
  EXPECT_EQ(parse("sockets:\n  metrics_port: 9401\n  metrics_address: 'fd00::1'").process.metrics->address, "fd00::1");
  EXPECT_FALSE(metrics->tls);
  const std::string tls = "sockets:\n  metrics_tls_certificate: /c\n";
  EXPECT_EQ(parse(tls + "  metrics_tls_key: /k\n  metrics_port: 9401").process.metrics->tls->key, "/k");
  expect_refused(tls + "  metrics_port: 9401", "needs metrics_tls_certificate and metrics_tls_key");
  expect_refused(tls + "  metrics_tls_key: /k", "needs a metrics_port");
  expect_refused("sockets:\n  metrics_port: 0", "from 1 to 65535");
  expect_refused("sockets:\n  metrics_port: 1\n  metrics_address: node-1", "is not an address");
  expect_refused("sockets:\n  metrics_address: '::'", "needs a metrics_port");
}

TEST(AgentConfig, NamesGpusForMpsOneByOne) {
  EXPECT_TRUE(parse("").process.mps.gpus.empty());
  const MpsOptions mps = parse(R"(
mps:
  gpus: [GPU-1, '0000:17:00.0']
  group: training
  folder: /f
  program: /p
  max_percent: 150
  answer_s: 7
  grace_s: 9
)")
                             .process.mps;
  EXPECT_THAT(mps.gpus, ElementsAre("GPU-1", "0000:17:00.0"));
  EXPECT_EQ(mps.group, known_names().group("training"));
  EXPECT_EQ(mps.folder, "/f");
  EXPECT_EQ(mps.program, "/p");
  EXPECT_EQ(mps.max_percent, 150);
  EXPECT_EQ(mps.answer, std::chrono::seconds(7));
  EXPECT_EQ(mps.grace, std::chrono::seconds(9));
  expect_refused("mps:\n  gpus: [GPU-1]", "mps: \"group\" is missing");
  expect_refused("mps:\n  gpus: [all]\n  group: training", "name each GPU");
  expect_refused("mps:\n  user: x", "user");
}

TEST(AgentConfig, HoldsAShareOfPowerWhereItNamesAServer) {
  EXPECT_FALSE(parse("").process.power_share);
  const Config config = parse(R"(
power_share:
  server: 'http://10.0.0.1:7787'
  token_file: /t
  safe_w: 250
  host: node-1
)");
  ASSERT_TRUE(config.process.power_share);
  EXPECT_EQ(config.process.power_share->server.text(), "http://10.0.0.1:7787");
  EXPECT_EQ(config.process.power_share->token_file, "/t");
  EXPECT_EQ(config.process.power_share->safe_w, 250);
  EXPECT_EQ(config.process.power_share->host, "node-1");
  EXPECT_TRUE(config.process.agent.shares_power);
  EXPECT_FALSE(parse("power_share:\n  server: 'unix:/s'\n  safe_w: 5").process.power_share->host.empty());
  EXPECT_EQ(parse("power_share:\n  server: 'https://s'\n  safe_w: 5\n  ca_file: /ca").process.power_share->ca_file,
            "/ca");
  expect_refused("power_share:\n  ca_file: /ca", "\"server\" is missing");
  expect_refused("power_share:\n  server: 'unix:/s'", "\"safe_w\" is missing");
  expect_refused("power_share:\n  safe_w: 250", "power_share: \"server\" is missing");
  expect_refused("power_share:\n  server: '10.0.0.1'\n  safe_w: 250", "agent.yaml:2:11: power_share.server");
  expect_refused("power_share:\n  server: 'unix:/s'\n  safe_w: 250\n  host: a/b", "is not a host's name");
}

TEST(AgentConfig, SaysWhichEventsClientsOfZeusGet) {
  EXPECT_EQ(parse("").process.zeusd_events, ZeusdEvents::device);
  EXPECT_EQ(parse("sockets:\n  zeusd_events: snapshot").process.zeusd_events, ZeusdEvents::snapshot);
  expect_refused("sockets:\n  zeusd_events: '0.4'", "write \"device\" for Zeus 0.16");
}

TEST(AgentConfig, ReadsEverything) {
  const Config config = parse(R"(
journal: /j
clock_log: /c
telemetry_hz: 10
sockets:
  lease_socket: /l
  http_socket: /h
  lease_mode: '0600'
  http_mode: '0666'
  group: training
  http_port: 9400
limits:
  max_clients: 10
  max_plan_mb: 1
  suspend_after_s: 2.5
  driver_timeout_s: 1
  hung_after_s: 3
gpu:
  - id: [GPU-1, '0000:02:00.0']
  - id: GPU-3
allow:
  - user: alice
    gpus: GPU-1
    min_clock_mhz: 600
    max_clock_mhz: 1400
    power: true
    min_power_w: 250
    max_power_w: 650.5
    workload_power_profiles: true
    power_smoothing: true
    read: false
  - group: training
)");
  EXPECT_EQ(config.journal, "/j");
  EXPECT_EQ(config.clock_log, "/c");
  EXPECT_EQ(config.process.agent.telemetry_rate_hz, 10);
  EXPECT_EQ(config.process.agent.lease_server.mode, 0600U);
  EXPECT_EQ(config.process.http_mode, 0666U);
  EXPECT_EQ(config.process.http_group, 2001U);
  EXPECT_EQ(config.process.http_port, 9400);
  EXPECT_EQ(config.process.agent.worker.suspend_after, std::chrono::milliseconds(2500));
  EXPECT_THAT(config.gpus, ElementsAre("GPU-1", "0000:02:00.0", "GPU-3"));
  ASSERT_EQ(config.allow.size(), 2U);
  EXPECT_EQ(config.allow[0].user, 1001U);
  EXPECT_THAT(config.allow[0].gpus, ElementsAre("GPU-1"));
  EXPECT_EQ(config.allow[0].max_clock_mhz, 1400);
  EXPECT_EQ(config.allow[0].max_power_w, 650.5);
  EXPECT_TRUE(config.allow[0].workload_power_profiles && config.allow[0].power_smoothing);
  EXPECT_FALSE(config.allow[0].read);
  EXPECT_EQ(config.allow[1].group, 2001U);
  EXPECT_FALSE(config.allow[1].power || config.allow[1].workload_power_profiles || config.allow[1].power_smoothing);
}

TEST(AgentConfig, SaysWhereAMistakeIs) {
  expect_refused("journal: [", "agent.yaml:1:");
  expect_refused("journal = \"/j\"", "agent.yaml:1:1: this is TOML");
  expect_refused("\ntelemetry_hz: fast",
                 "agent.yaml:2:15: telemetry_hz: expected a number from 0.1 to 100, not \"fast\"");
  expect_refused("journal: |\n  /var/lib/lowgear\n", "agent.yaml:1:10: journal: the path ends with a newline");
  expect_refused("socketz: {}", "did you mean sockets?");
  expect_refused("sockets:\n  lease_sokcet: /l", "did you mean lease_socket?");
  expect_refused("allow:\n  - everybody: true\n    max_clock: 5", "max_clock_mhz");
  expect_refused("sockets:\n  lease_mode: rw",
                 "agent.yaml:2:15: sockets.lease_mode: expected a mode in quotes, such as \"0660\"");
  expect_refused("sockets:\n  lease_mode: 0660", "expected a mode in quotes");
  expect_refused("sockets:\n  group: nobody-such", "there is no group");
  expect_refused("sockets:\n  http_port: 70000", "from 1 to 65535");
  expect_refused("limits:\n  max_clients: 1.5", "whole number");
  expect_refused("telemetry_hz: nan", "expected a number from 0.1 to 100");
  expect_refused("telemetry_hz:", "a value is missing");
  expect_refused("gpu:\n  - {}", "gpu[0]: \"id\" is missing");
  expect_refused("gpu:\n  id: all", "agent.yaml:2:3: gpu: expected a list, not a map");
  expect_refused("allow:\n  - read: true", "one of user, group and everybody");
  expect_refused("allow:\n  - user: alice\n    everybody: true", "one of user, group and everybody");
  expect_refused("allow:\n  - user: bob", "agent.yaml:2:11: allow[0].user: there is no user");
  expect_refused("allow:\n  - everybody: true\n    min_clock_mhz: 900\n    max_clock_mhz: 800", "above max_clock_mhz");
}

TEST(AgentConfig, RefusesAFileThatOthersMayChange) {
  const auto folder = std::filesystem::temp_directory_path() / ("lowgear-config-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  ::chmod(folder.c_str(), 0755);
  const auto file = folder / "agent.yaml";
  std::ofstream(file) << "telemetry_hz: 5\n";
  ::chmod(file.c_str(), 0644);
  EXPECT_EQ(load_agent_config(file).process.agent.telemetry_rate_hz, 5);
  ::chmod(file.c_str(), 0664);
  EXPECT_THROW((void)load_agent_config(file), InputError);
  ::chmod(file.c_str(), 0644);
  ::chmod(folder.c_str(), 0777);
  EXPECT_THROW((void)load_agent_config(file), InputError);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lowgear::agent
