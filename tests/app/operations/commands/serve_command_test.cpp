#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::operations {
namespace {

using cli::LowgearProcess;
using cli::ProgramResult;
using cli::refusal_of;
using cli::run_lowgear;

using testing::HasSubstr;

/// It prints its addresses once a signal lets requests at hand finish; before, the socket is there already.
void wait_until_it_serves(LowgearProcess& server, const std::string& socket) {
  while (server.running() && server.output().find(socket) == std::string::npos) ::usleep(20'000);
}

/// A server on a folder of its own, and commands about its state.
class ServeCommand : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// Serves until `meanwhile` has run.
  void serve(const std::string& state, const std::function<void()>& meanwhile) const {
    LowgearProcess server({"serve", "--state", path(state), "--unix", path("socket")});
    wait_until_it_serves(server, path("socket"));
    EXPECT_TRUE(server.running());
    meanwhile();
    server.send_signal(SIGTERM);
    EXPECT_EQ(server.wait().exit_code, 0);
  }
  [[nodiscard]] ProgramResult state_command(const std::string& action, const std::string& state,
                                            const std::vector<std::string>& others) const {
    std::vector<std::string> words = {"serve", action, "--state", path(state)};
    words.insert(words.end(), others.begin(), others.end());
    return run_lowgear(words);
  }

  TemporaryFolder folder_;
};

TEST_F(ServeCommand, ServesFromACheckoutWithoutAConfiguration) {
  if (std::filesystem::exists("/etc/lowgear/server.yaml")) GTEST_SKIP() << "this machine has a configuration";
  const std::string home = path("home");
  const ProgramResult own =
      run_lowgear({"serve", "--check", "--json"}, [&] { ::setenv("XDG_STATE_HOME", home.c_str(), 1); });
  ASSERT_EQ(own.exit_code, 0) << own.err;
  EXPECT_EQ(parse_json(own.out, "stdout")["unix"], home + "/lowgear-server/server.sock");
  const std::string state = path("state");
  const ProgramResult given = run_lowgear({"serve", "--check", "--state", state, "--json"});
  ASSERT_EQ(given.exit_code, 0) << given.err;
  EXPECT_EQ(parse_json(given.out, "stdout")["unix"], state + "/server.sock");

  LowgearProcess server({"serve", "--listen", "127.0.0.1:0"}, [&] { ::setenv("XDG_STATE_HOME", home.c_str(), 1); });
  wait_until_it_serves(server, "/lowgear-server/server.sock");
  server.send_signal(SIGTERM);
  const ProgramResult served = server.wait();
  EXPECT_EQ(served.exit_code, 0) << served.err;
  EXPECT_THAT(served.err, HasSubstr("stopped; jobs continue once a server starts with "));
}

TEST_F(ServeCommand, BacksUpARunningServerAndRestoresIt) {
  serve("state", [&] {
    const ProgramResult checked = state_command("backup", "state", {path("file"), "--dry-run"});
    EXPECT_THAT(checked.out, HasSubstr("nothing is changed"));
    EXPECT_FALSE(std::filesystem::exists(path("file")));
    const ProgramResult backup = state_command("backup", "state", {path("file"), "--json"});
    ASSERT_EQ(backup.exit_code, 0) << backup.err;
    const Json json = parse_json(backup.out, "stdout");
    EXPECT_EQ(json["file"], path("file"));
    EXPECT_EQ(json["state"], path("state"));
    EXPECT_EQ(json["open_jobs"], 0);
    EXPECT_EQ(json["final"], false);
    EXPECT_GT(json["schema_version"], 0);
    EXPECT_THAT(state_command("backup", "state", {path("other"), "--final"}).err, HasSubstr("stop it"));
  });
  const ProgramResult restored = state_command("restore", "restored", {path("file")});
  EXPECT_EQ(restored.exit_code, 0) << restored.err;
  EXPECT_THAT(restored.out, HasSubstr("0 open and 0 finished jobs"));
  serve("restored", [] {});
}

TEST_F(ServeCommand, MovesAState) {
  serve("state", [] {});
  const ProgramResult moved = state_command("backup", "state", {path("file"), "--final"});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_THAT(moved.out, HasSubstr("no server starts from"));
  EXPECT_THAT(refusal_of({"serve", "--state", path("state")}), HasSubstr("have moved"));
  EXPECT_THAT(run_lowgear({"serve", "--state", path("state"), "--check"}).err, HasSubstr("have moved"));
}

TEST_F(ServeCommand, TakesTheVariablesOfPerseusServerWherePerseusPortIsServed) {
  const auto check = [&](std::vector<std::string> others) {
    others.insert(others.begin(), {"serve", "--state", path("state"), "--unix", path("socket"), "--check"});
    return run_lowgear(others, [] {
      ::setenv("PERSEUS_SCHEDULER", "NoScheduler", 1);
      ::setenv("PERSEUS_DUMP_DATA", "False", 1);
    });
  };
  EXPECT_THAT(refusal_of(check({"--perseus-listen", "127.0.0.1:0"})), HasSubstr("NoScheduler"));
  EXPECT_EQ(check({}).exit_code, 0) << "nothing is taken from them where there is no such port";
  EXPECT_EQ(check({"--perseus-listen", "127.0.0.1:0", "--perseus-scheduler", "AllMaxFrequency"}).exit_code, 0);
}

TEST_F(ServeCommand, ACheckReadsEveryFileThatServingReads) {
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::string file = cli::write_text(path(name), text);
    ::chmod(file.c_str(), 0600);
    return file;
  };
  const std::string start = fmt::format("state: \"{}\"\nlisten:\n  unix: \"{}\"\n", path("state"), path("socket"));
  const auto refuses = [&](const std::string& config, const std::string& why) {
    const std::string file = write("server.yaml", config);
    for (const bool checks : {true, false}) {
      std::vector<std::string> words = {"serve", "--config", file};
      if (checks) words.emplace_back("--check");
      const ProgramResult result = run_lowgear(words);
      EXPECT_EQ(result.exit_code, 2) << config;
      EXPECT_THAT(result.err, HasSubstr(why)) << (checks ? "checked: " : "served: ") << config;
    }
    EXPECT_FALSE(std::filesystem::exists(path("state"))) << "nothing is begun";
  };
  const std::string tokens = start + fmt::format("  token_file: \"{}\"\n", path("tokens"));
  refuses(tokens, path("tokens"));
  (void)write("key", "no key\n");
  const std::string tls = "  tls: [\"127.0.0.1:0\"]\ntls:\n";
  refuses(start + tls + fmt::format("  certificate: \"{}\"\n  key: \"{}\"\n", path("cert"), path("key")), path("cert"));
  refuses(start + "otlp:\n  url: \"https://localhost:1\"\n", "\"otlp\" is not a setting");
  refuses(start + "webhook:\n  - name: w\n", "\"webhook\" is not a setting");
  refuses(start + fmt::format("audit:\n  file: \"{}\"\n", path("missing/audit.jsonl")), path("missing"));
  refuses(start + fmt::format("audit:\n  file: \"{}\"\n", path("")), "the audit log cannot be written");
  refuses(start + fmt::format("audit:\n  file: \"{}\"\nperseus:\n  listen: \"127.0.0.1:0\"\n  scheduler: "
                              "AllMaxFrequency\n  dump_dir: \"{}/results\"\n",
                              path("audit"), path("key")),
          path("key/results"));
  refuses(fmt::format("state: \"{}\"\nlisten:\n  unix: \"{}\"\n", path("state"), path("key")), "not a socket");
  refuses(fmt::format("state: \"{}\"\nlisten:\n  unix: \"/{}\"\n", path("state"), std::string(200, 'a')), "107");
  (void)write("tokens", "read name=reader 0123456789abcdef\n");
  EXPECT_EQ(run_lowgear({"serve", "--config", write("server.yaml", tokens), "--check"}).exit_code, 0);
}

TEST_F(ServeCommand, SaysWhatDoesNotGoWithABackup) {
  EXPECT_THAT(state_command("backup", "state", {}).err, HasSubstr("lowgear serve backup FILE"));
  EXPECT_THAT(state_command("backup", "state", {path("file"), "--listen", "127.0.0.1:1"}).err,
              HasSubstr("--listen does not go with `serve backup`"));
  EXPECT_THAT(state_command("restore", "state", {path("file"), "--final"}).err, HasSubstr("--final does not go with"));
  EXPECT_THAT(run_lowgear({"serve", "--state", path("state"), "--dry-run"}).err,
              HasSubstr("--dry-run does not go with"));
  EXPECT_EQ(state_command("restore", "state", {path("file")}).exit_code, 2);
}

}  // namespace
}  // namespace lowgear::operations
