#include "server/server_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/known_names.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Config parse(const std::string& text) { return parse_server_config(text, "server.yaml", known_names()); }

TEST(ServerConfig, IsClosedWhenItIsEmpty) {
  const Config config = parse("");
  EXPECT_THAT(config.tcp, IsEmpty());
  EXPECT_THAT(config.allow, IsEmpty());
  EXPECT_FALSE(config.token_file);
  EXPECT_FALSE(config.loopback_read);
  EXPECT_EQ(config.unix_mode, 0660U);
}

TEST(ServerConfig, ReadsEverything) {
  const Config config = parse(R"(
state: /s
policy: perseus
planning_threads: 3
planning_limit_s: 30
listen:
  unix: /u
  unix_mode: '0600'
  unix_group: training
  tcp: ['0.0.0.0:7787', '[::1]:0']
  tls: ['192.0.2.10:7788']
  token_file: /t
  loopback_read: true
limits:
  max_body_mb: 2
  max_connections: 5
  max_streams: 6
  requests_per_s: 7.5
  burst: 8
  request_timeout_s: 1.5
  max_jobs: 9
  max_ranks: 10
retention:
  iterations: 500
  plans: 12
  finished_days: 1.5
  usage_days: 90
perseus:
  listen: '127.0.0.1:7787'
  scheduler: InstructionProfiler
  scheduler_args: '{"minimum_power_state": 900}'
  mode: power limit
  log_level: debug
  dump: false
  dump_dir: /d
allow:
  - role: train
    group: training
  - role: admin
    user: alice
  - scopes: [read, operate]
    everybody: true
tls:
  certificate: /c.pem
  key: /k.pem
  client_ca: /ca.pem
audit:
  file: /a.jsonl
  max_mb: 2
  files: 3
)");
  EXPECT_EQ(config.state, "/s");
  EXPECT_EQ(config.policy, protocol::JobPolicy::perseus);
  EXPECT_EQ(config.planning_threads, 3);
  EXPECT_EQ(config.planning_times.limit_s, 30);
  EXPECT_EQ(config.unix_socket, "/u");
  EXPECT_EQ(config.unix_mode, 0600U);
  EXPECT_EQ(config.unix_group, 2001U);
  ASSERT_THAT(config.tcp, SizeIs(2));
  EXPECT_EQ(config.tcp[0].address, "0.0.0.0");
  EXPECT_EQ(config.tcp[0].port, 7787);
  EXPECT_EQ(config.tcp[1].address, "::1");
  EXPECT_EQ(config.token_file, "/t");
  EXPECT_TRUE(config.loopback_read);
  EXPECT_EQ(config.http.limits.body_bytes, std::size_t{2} << 20U);
  EXPECT_EQ(config.http.max_connections, 5U);
  EXPECT_EQ(config.http.max_streams, 6U);
  EXPECT_EQ(config.http.rate_limit.requests_per_s, 7.5);
  EXPECT_EQ(config.http.rate_limit.burst, 8);
  EXPECT_EQ(config.http.request_timeout, std::chrono::milliseconds(1'500));
  EXPECT_EQ(config.max_jobs, 9);
  EXPECT_EQ(config.max_ranks, 10);
  EXPECT_EQ(config.retention.iterations, 500);
  EXPECT_EQ(config.retention.plans, 12);
  EXPECT_EQ(config.retention.finished_days, 1.5);
  EXPECT_EQ(config.retention.usage_days, 90);
  ASSERT_TRUE(config.perseus.listen);
  EXPECT_EQ(config.perseus.listen->port, 7787);
  EXPECT_EQ(config.perseus.scheduler, "InstructionProfiler");
  EXPECT_EQ(config.perseus.scheduler_args, R"({"minimum_power_state": 900})");
  EXPECT_EQ(config.perseus.mode, "power limit");
  EXPECT_EQ(config.perseus.log_level, "debug");
  EXPECT_FALSE(config.perseus.dump);
  EXPECT_EQ(config.perseus.dump_dir, "/d");
  ASSERT_THAT(config.allow, SizeIs(3));
  EXPECT_EQ(to_string(config.allow[0].scopes), "read,jobs");
  EXPECT_EQ(config.allow[0].group, 2001U);
  EXPECT_EQ(config.allow[1].user, 1001U);
  EXPECT_TRUE(config.allow[2].everybody);
  EXPECT_EQ(to_string(config.allow[2].scopes), "read,operate");
  ASSERT_THAT(config.tls, SizeIs(1));
  EXPECT_EQ(config.tls[0].port, 7788);
  EXPECT_EQ(config.tls_files.certificate, "/c.pem");
  EXPECT_EQ(config.tls_files.key, "/k.pem");
  EXPECT_EQ(config.tls_files.client_ca, "/ca.pem");
  EXPECT_TRUE(config.audit.keep);
  EXPECT_EQ(config.audit.file, "/a.jsonl");
  EXPECT_EQ(config.audit.max_bytes, std::size_t{2} << 20U);
  EXPECT_EQ(config.audit.files, 3);
}

TEST(ServerConfig, IsTheDefaultInTheExample) {
  const std::string path = std::string(LOWGEAR_SOURCE_DIR) + "/deploy/server.yaml";
  const Config example = parse(read_file(path));
  const Config empty = parse("");
  EXPECT_EQ(example.state, empty.state);
  EXPECT_EQ(example.policy, empty.policy);
  EXPECT_EQ(example.planning_threads, empty.planning_threads);
  EXPECT_EQ(example.planning_times.limit_s, empty.planning_times.limit_s);
  EXPECT_EQ(example.unix_socket, empty.unix_socket);
  EXPECT_EQ(example.unix_mode, empty.unix_mode);
  EXPECT_THAT(example.tcp, IsEmpty());
  EXPECT_EQ(example.http.limits.body_bytes, empty.http.limits.body_bytes);
  EXPECT_EQ(example.http.max_connections, empty.http.max_connections);
  EXPECT_EQ(example.http.max_streams, empty.http.max_streams);
  EXPECT_EQ(example.http.rate_limit.requests_per_s, empty.http.rate_limit.requests_per_s);
  EXPECT_EQ(example.http.request_timeout, empty.http.request_timeout);
  EXPECT_EQ(example.max_jobs, empty.max_jobs);
  EXPECT_EQ(example.max_ranks, empty.max_ranks);
  EXPECT_EQ(example.retention.iterations, empty.retention.iterations);
  EXPECT_EQ(example.retention.plans, empty.retention.plans);
  EXPECT_EQ(example.retention.finished_days, empty.retention.finished_days);
  EXPECT_EQ(example.retention.usage_days, empty.retention.usage_days);
  EXPECT_EQ(example.retention.budget_days, empty.retention.budget_days);
  EXPECT_FALSE(example.perseus.listen);
  EXPECT_EQ(example.perseus.scheduler, empty.perseus.scheduler);
  EXPECT_EQ(example.perseus.scheduler_args, empty.perseus.scheduler_args);
  EXPECT_EQ(example.perseus.mode, empty.perseus.mode);
  EXPECT_EQ(example.perseus.dump, empty.perseus.dump);
  EXPECT_EQ(example.perseus.dump_dir, empty.perseus.dump_dir);
  EXPECT_THAT(example.allow, IsEmpty());
}

TEST(ServerConfig, SaysWhereAMistakeIs) {
  const auto refusal = [](const std::string& text) { return error_of([&] { (void)parse(text); }); };
  EXPECT_THAT(refusal("state: 5"), HasSubstr("server.yaml:1:8: state: expected a text in quotes"));
  EXPECT_THAT(refusal("state: here"), HasSubstr("begins with /"));
  EXPECT_THAT(refusal("state: ''"), HasSubstr("state: expected a text"));
  EXPECT_THAT(refusal("stat: /s"), HasSubstr("did you mean state?"));
  EXPECT_THAT(refusal("listen:\n  tpc: '127.0.0.1:1'"), HasSubstr("did you mean tcp?"));
  EXPECT_THAT(refusal("limits:\n  max_jobs: 0"), HasSubstr("from 1 to 1000000"));
  EXPECT_THAT(refusal("limits:\n  max_body_mb: inf"), HasSubstr("server.yaml:2:16: limits.max_body_mb"));
  EXPECT_THAT(refusal("retention:\n  iterations: 1"), HasSubstr("from 100"));
  EXPECT_THAT(refusal("planning_threads: 1.5"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("\npolicy: zeus"),
              EndsWith("server.yaml:2:9: policy: there is no policy \"zeus\"; there are lowgear, perseus, envpipe"));
  EXPECT_THAT(refusal("policy: steps"), EndsWith("policy: steps is of jobs that plan their own steps and state it: use "
                                                 "one of lowgear, perseus, envpipe"));
  EXPECT_THAT(refusal("policy: 1"), HasSubstr("server.yaml:1:9"));
  EXPECT_THAT(
      refusal("perseus:\n  scheduler: AllMin"),
      HasSubstr("server.yaml:2:14: perseus.scheduler: no scheduler \"AllMin\"; schedulers are AllMaxFrequency, "));
  EXPECT_THAT(refusal("perseus:\n  log_level: loud"),
              HasSubstr("server.yaml:2:14: perseus.log_level: no log level \"loud\""));
  EXPECT_THAT(refusal("perseus:\n  listen: here"), HasSubstr("server.yaml:2:11"));
  EXPECT_THAT(refusal("perseus:\n  dump_dir: dump"), HasSubstr("begins with /"));
  EXPECT_THAT(refusal("perseus:\n  dump_di: /d"), HasSubstr("did you mean dump_dir?"));
  EXPECT_THAT(refusal("listen:\n  unix_group: x"), HasSubstr("server.yaml:2:15: listen.unix_group: there is no group"));
  EXPECT_THAT(refusal("allow:\n  - user: alice"), HasSubstr("needs scopes"));
  EXPECT_THAT(refusal("allow:\n  - role: root\n    user: alice"),
              HasSubstr("server.yaml:2:11: allow[0].role: there is no role"));
  EXPECT_THAT(refusal("allow:\n  - scopes: [read, root]\n    user: alice"), HasSubstr("the scopes are"));
  EXPECT_THAT(refusal("allow:\n  - role: read\n    scopes: [read]\n    user: alice"), HasSubstr("needs scopes"));
  EXPECT_THAT(refusal("listen:\n  tls: ['127.0.0.1:1']"), HasSubstr("needs a certificate and a key"));
  EXPECT_THAT(refusal("listen:\n  tls: ['127.0.0.1:1']\ntls:\n  certificate: /c"), HasSubstr("needs a certificate"));
  EXPECT_THAT(refusal("listen:\n  tls: ['0.0.0.0:1']\ntls:\n  certificate: /c\n  key: /k"),
              HasSubstr("name a token_file"));
  EXPECT_THAT(refusal("tls:\n  key: k"), HasSubstr("begins with /"));
  EXPECT_THAT(refusal("audit:\n  file: a"), HasSubstr("begins with /"));
  EXPECT_THAT(refusal("audit:\n  files: 0"), HasSubstr("files"));
  EXPECT_THAT(refusal("allow:\n  - role: read"), HasSubstr("one of user, group and everybody"));
  EXPECT_THAT(refusal("allow:\n  - role: read\n    user: bob"), HasSubstr("there is no user"));
}

TEST(ServerConfig, NeedsTokensBeyondThisMachine) {
  const auto refusal = [](const std::string& address, const std::string& more) {
    return error_of([&] { (void)parse("listen:\n  tcp: '" + address + "'\n" + more); });
  };
  for (const char* address : {"0.0.0.0:7787", "192.0.2.7:7787", "[::]:7787", "[::ffff:127.0.0.1]:7787"}) {
    EXPECT_THAT(refusal(address, ""), HasSubstr("server.yaml:2:8: listen.tcp: ")) << address;
    EXPECT_THAT(refusal(address, "  loopback_read: true"), HasSubstr("name a token_file")) << address;
    EXPECT_EQ(refusal(address, "  token_file: /t"), "no error") << address;
  }
  for (const char* address : {"127.0.0.1:7787", "127.0.0.53:0", "[::1]:65535"}) {
    EXPECT_EQ(refusal(address, ""), "no error") << address;
  }
}

TEST(ServerConfig, RefusesWhatIsNoAddressAndPort) {
  for (const char* text : {"", "7787", ":7787", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                           "127.0.0.1:1e3", "127.0.0.1: 1", "localhost:7787", "::1:7787", "[::1]", "[127.0.0.1]:7787",
                           "127.1:7787", "127.0.0.1:99999999999999999999", "[]:1"}) {
    EXPECT_THAT(error_of([&] { (void)parse_tcp_address(text); }), HasSubstr("not an address and a port")) << text;
  }
}

TEST(ServerConfig, RefusesAFileThatOthersMayChange) {
  const TemporaryFolder folder;
  const auto path = folder / "server.yaml";
  write_file_atomically(path, "planning_threads: 2\n");
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(load_server_config(path).planning_threads, 2);
  ASSERT_EQ(::chmod(path.c_str(), 0664), 0);
  EXPECT_THAT(error_of([&] { (void)load_server_config(path); }), HasSubstr("chmod go-w"));
}

}  // namespace
}  // namespace lowgear::server
