#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::operations {
namespace {

using cli::lines_of;
using cli::LowgearProcess;
using cli::ProgramResult;
using cli::run_lowgear;
using cli::write_text;
using ::testing::Contains;
using ::testing::HasSubstr;

/// `lowgear run`, with no variable of Lowgear set.
ProgramResult run(std::vector<std::string> arguments, const char* python_path = nullptr) {
  arguments.insert(arguments.begin(), "run");
  return run_lowgear(std::move(arguments), [python_path] {
    for (const char* name : {"LOWGEAR_SERVER", "LOWGEAR_PLAN", "LOWGEAR_STEPS", "LOWGEAR_RECORDING", "LOWGEAR_SEARCH",
                             "LOWGEAR_RUN", "SLURM_JOB_ID", "RANK", "WORLD_SIZE"}) {
      ::unsetenv(name);
    }
    if (python_path == nullptr) {
      ::unsetenv("PYTHONPATH");
    } else {
      ::setenv("PYTHONPATH", python_path, 1);
    }
  });
}

TEST(RunCommand, SetsTheEnvironmentOfTheCommand) {
  const TemporaryFolder folder;
  const ProgramResult result = run({"--record", folder / "out", "--slowdown", "2.5", "--", "env"}, "/some/where");
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<std::string> variables = lines_of(result.out);
  EXPECT_THAT(variables, Contains("LOWGEAR_RECORDING=" + (folder / "out").string()));
  EXPECT_THAT(variables, Contains("LOWGEAR_SLOWDOWN=2.5"));
  EXPECT_THAT(variables, Contains(testing::EndsWith("/site:/some/where")));
  EXPECT_THAT(variables, testing::Not(Contains(testing::StartsWith("LOWGEAR_RUN="))));
}

TEST(RunCommand, RefusesWhatIsNoServersAddressBeforeTheCommandStarts) {
  const TemporaryFolder folder;
  const std::string started = (folder / "started").string();
  const std::string long_path = "unix:/" + std::string(200, 'x');
  const std::vector<std::string> addresses = {
      "file:///etc/passwd",  "ftp://host",           "host:7787", "http://",          "http://:80", "http://host:70000",
      "http://host:7787/v1", "http://a:1,file:///b", "unix:",     "http://a:1,unix:", long_path};
  for (const std::string& address : addresses) {
    for (const bool as_option : {true, false}) {
      std::vector<std::string> words = {"run"};
      if (as_option) words.insert(words.end(), {"--server", address});
      words.insert(words.end(), {"--", "touch", started});
      const ProgramResult result = run_lowgear(
          words, [&] { as_option ? ::unsetenv("LOWGEAR_SERVER") : ::setenv("LOWGEAR_SERVER", address.c_str(), 1); });
      EXPECT_EQ(result.exit_code, 2) << address;
      EXPECT_THAT(result.err, HasSubstr(as_option ? "--server: " : "LOWGEAR_SERVER: ")) << address;
      EXPECT_THAT(result.err, HasSubstr("write http://host:port, https://host:port or unix:/path")) << address;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(started));
}

TEST(RunCommand, AsksForASearch) {
  const TemporaryFolder folder;
  const ProgramResult result = run({"--search", "slowdown=2%", "--points", "power-limit=700,600", "--search-block", "5",
                                    "--search-record", folder / "record.jsonl", "--", "env"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> variables = lines_of(result.out);
  EXPECT_THAT(variables, Contains("LOWGEAR_SEARCH=slowdown=2%"));
  EXPECT_THAT(variables, Contains("LOWGEAR_SEARCH_POINTS=power-limit=700,600"));
  EXPECT_THAT(variables, Contains("LOWGEAR_SEARCH_BLOCK=5"));
  EXPECT_THAT(variables, Contains("LOWGEAR_SEARCH_RECORD=" + (folder / "record.jsonl").string()));
}

TEST(RunCommand, RefusesASearchThatCannotBe) {
  EXPECT_THAT(run({"--search", "2%", "--", "env"}).err, HasSubstr("slowdown=2%"));
  EXPECT_THAT(run({"--search", "slowdown=2%", "--points", "watts", "--", "env"}).err,
              HasSubstr("clock and power-limit"));
  EXPECT_THAT(run({"--search", "slowdown=2%", "--points", "clock=1980", "--", "env"}).err,
              HasSubstr("--points clock=1980: 1 operating point given; a search takes 2 to 64, full speed first"));
  EXPECT_THAT(run({"--search", "slowdown=2%", "--points", "clock=1530,1980", "--", "env"}).err,
              HasSubstr("the operating point 1980 comes after 1530; list full speed, the highest, first"));
  EXPECT_THAT(run({"--search", "slowdown=2%", "--search-record", "/no/such/search.jsonl", "--", "env"}).err,
              HasSubstr("--search-record: /no/such: no such folder"));
  EXPECT_THAT(run({"--search", "slowdown=2%", "--server", "http://127.0.0.1:1", "--", "env"}).err,
              HasSubstr("leave out --server and --plan"));
  EXPECT_THAT(run({"--record", "out", "--points", "clock", "--", "env"}).err, HasSubstr("add --search"));
}

TEST(RunCommand, RefusesASlowdownOfOnePlan) {
  const TemporaryFolder folder;
  const std::string plan = write_text(folder / "plan.json", "{}");
  EXPECT_THAT(run({"--plan", plan, "--slowdown", "3", "--", "env"}).err, HasSubstr("leave out --slowdown"));
}

TEST(RunCommand, RefusesStepClocksThatCannotBe) {
  const TemporaryFolder folder;
  const std::string profile = folder / "profile.csv";
  EXPECT_THAT(refusal_of(run({"--steps", profile, "--", "env"})), HasSubstr("--steps: "));
  const std::vector<std::pair<std::string, std::string>> others{
      {"--plan", "plan"}, {"--server", "http://127.0.0.1:1"}, {"--search", "slowdown=2%"}};
  for (const auto& [option, value] : others) {
    EXPECT_THAT(run({"--steps", profile, option, value, "--", "env"}).err, HasSubstr("clocks come from one of them"));
  }
  EXPECT_THAT(run({"--record", "out", "--clocks-per", "unit", "--", "env"}).err, HasSubstr("add --steps PROFILE.csv"));
  for (const std::string option : {"--slowdown", "--switch-latency"}) {
    EXPECT_THAT(run({"--steps", profile, option, "5", "--", "env"}).err, HasSubstr("--steps and " + option + ": "));
  }
}

TEST(RunCommand, RefusesSharesThatCannotBe) {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), "--share");
    const ProgramResult result = run(std::move(words));
    EXPECT_NE(result.exit_code, 0) << result.out;
    return result.err;
  };
  for (const char* share : {"0", "0:50", "0:0%", "0:101%", ":50%", "0:x%", "0:%"}) {
    EXPECT_THAT(refusal({share, "--", "env"}), HasSubstr("expected GPU:PERCENT%")) << share;
  }
  EXPECT_THAT(refusal({"0:50%", "--", "torchrun", "--nproc_per_node=2", "train.py"}),
              HasSubstr("NCCL refuses two ranks of a communicator"));
  EXPECT_THAT(refusal({"0:50%", "--search", "slowdown=2%", "--", "env"}), HasSubstr("leave out one of them"));
  EXPECT_THAT(refusal({"0:50%", "--agent", "/nonexistent/agent.sock", "--", "env"}),
              HasSubstr("no agent responds: there is no /nonexistent/agent.sock; start"));
}

TEST(RunCommand, SaysWhichShareItWouldAskFor) {
  const ProgramResult result = run({"--share", "0000:17:00.0:25%", "--agent", "/a.sock", "--dry-run", "--", "env"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("The agent at /a.sock would be asked for a share, 0000:17:00.0:25%"));
  EXPECT_THAT(result.out, Not(HasSubstr("PYTHONPATH")));
}

TEST(RunCommand, NamesTheServersSocketForEveryFolder) {
  const ProgramResult result = run({"--server", "unix:state/server.sock", "--", "env"});
  EXPECT_THAT(lines_of(result.out),
              Contains("LOWGEAR_SERVER=unix:" + (std::filesystem::current_path() / "state/server.sock").string()));
  EXPECT_THAT(lines_of(run({"--server", "unix:/run/a.sock", "--", "env"}).out),
              Contains("LOWGEAR_SERVER=unix:/run/a.sock"));
  EXPECT_THAT(lines_of(run({"--server", "http://127.0.0.1:1,unix:/run/a.sock", "--", "env"}).out),
              Contains("LOWGEAR_SERVER=http://127.0.0.1:1,unix:/run/a.sock"));
}

TEST(RunCommand, TellsTheServersJobHowLateClocksChange) {
  EXPECT_THAT(lines_of(run({"--server", "http://127.0.0.1:1", "--switch-latency", "25", "--", "env"}).out),
              Contains("LOWGEAR_SWITCH_LATENCY=25"));
  const TemporaryFolder folder;
  EXPECT_THAT(refusal_of(run({"--plan", folder / "plan", "--switch-latency", "25", "--", "env"})),
              HasSubstr("the plan has its own"));
}

TEST(RunCommand, NamesAStartThatNothingElseNames) {
  const ProgramResult one = run({"--server", "http://127.0.0.1:1", "--", "env"});
  EXPECT_THAT(lines_of(one.out), Contains(testing::StartsWith("LOWGEAR_RUN=run-")));
  EXPECT_THAT(lines_of(one.out), Contains(testing::EndsWith("/site"))) << "no empty entry, which is the working folder";
  const ProgramResult many = run({"--server", "http://127.0.0.1:1", "--", "sh", "-c", "env", "x", "--nnodes=2"});
  EXPECT_THAT(many.out, testing::Not(HasSubstr("LOWGEAR_RUN="))) << "each machine would name it differently";
}

TEST(RunCommand, TakesLaunchersOfOneMachineForWhatTheyAre) {
  const auto named = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"--server", "http://127.0.0.1:1", "--", "sh", "-c", "env", "x"});
    return run(std::move(words)).out.find("LOWGEAR_RUN=run-") != std::string::npos;
  };
  EXPECT_TRUE(named({"--nnodes", "1", "--node_rank", "0", "--master_addr", "localhost"}));
  EXPECT_TRUE(named({"--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"}))
      << "torchrun's default is one machine";
  EXPECT_TRUE(named({"--num_machines=1"}));
  EXPECT_FALSE(named({"--nnodes", "2:4"}));
  EXPECT_FALSE(named({"--num_machines", "2", "--machine_rank", "0"}));
  EXPECT_FALSE(named({"--no_ssh", "--node_rank=1"}));
  EXPECT_TRUE(named({"--nnodes"})) << "the launcher itself refuses it";
}

TEST(RunCommand, IsTheCommandToWhoeverWaitsForIt) {
  EXPECT_EQ(run({"--record", "out", "--", "sh", "-c", "exit 7"}).exit_code, 7);
  EXPECT_EQ(run({"--record", "out", "--", "sh", "-c", "kill -TERM $$"}).signal, SIGTERM);
  EXPECT_THAT(refusal_of(run({"--record", "out", "--", "/no/such/program"})),
              HasSubstr("cannot run \"/no/such/program\": No such file or directory"));
}

TEST(RunCommand, SaysThatNothingAttached) {
  const TemporaryFolder folder;
  const ProgramResult result = run({"--record", folder / "out", "--", "true"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("nothing attached: on "));
  EXPECT_THAT(result.err, HasSubstr("lowgear doctor"));
  const ProgramResult strict = run({"--record", folder / "out", "--strict", "--", "true"});
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_THAT(strict.err, HasSubstr("nothing attached: on "));
  const ProgramResult failed = run({"--record", folder / "out", "--strict", "--", "sh", "-c", "exit 7"});
  EXPECT_EQ(failed.exit_code, 7) << "the command's own status";
  EXPECT_EQ(failed.err, "");
}

TEST(RunCommand, IsSilentWhereAClientOpenedOrARankRecorded) {
  const TemporaryFolder folder;
  const std::string rank = (folder / "out" / "rank-00000").string();
  for (const std::string& script : {std::string(": > \"$LOWGEAR_ATTACHED_MARK\""), "mkdir -p " + rank}) {
    const ProgramResult result = run({"--record", folder / "out", "--strict", "--", "sh", "-c", script});
    EXPECT_EQ(result.exit_code, 0) << script;
    EXPECT_EQ(result.err, "") << script;
  }
  EXPECT_EQ(run({"--record", folder / "out", "--strict", "--", "true"}).exit_code, 1) << "that recording is an old one";
}

TEST(RunCommand, SaysWhyNothingAttachedWhereARankDoes) {
  const TemporaryFolder folder;
  const std::string script = "echo out/rank-00000: there is a recording already > \"$LOWGEAR_ATTACHED_MARK.reason\"";
  const ProgramResult result = run({"--record", folder / "out", "--", "sh", "-c", script});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("nothing attached: out/rank-00000: there is a recording already\n"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("framework")));
}

TEST(RunCommand, EndsWithWhatTheClientsFollowed) {
  const auto of = [](const std::string& script) { return run({"--record", "out", "--", "sh", "-c", script}); };
  const ProgramResult ended = of("echo plans were followed in 3 of 4 iterations >> \"$LOWGEAR_ATTACHED_MARK\"");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("plans were followed in 3 of 4 iterations\n"));
  const ProgramResult failed = of("echo no plan was followed >> \"$LOWGEAR_ATTACHED_MARK\"; exit 7");
  EXPECT_EQ(failed.exit_code, 7);
  EXPECT_THAT(failed.err, HasSubstr("no plan was followed\n"));
  const std::string note = R"({"addresses": [], "ca": "", "certificate": "", "key": "", "token_file": "", "job": "", )"
                           R"("rank": 1, "rank_key": ""})";
  const ProgramResult silent = of("echo '" + note + "' > \"$LOWGEAR_ATTACHED_MARK.rank-x\"; exit 3");
  EXPECT_THAT(silent.err, HasSubstr("rank 1: no last word (killed by SIGKILL, or ended by the launcher after another "
                                    "failed); its command ended with exit status 3"));
}

TEST(RunCommand, EndsAlikeByEachSignalWithTheRecordOfRanksThatLeftNoWord) {
  for (const auto& [name, number] : {std::pair("TERM", SIGTERM), std::pair("INT", SIGINT)}) {
    const std::string script =
        std::string("echo plans were followed in 3 of 9 iterations > \"$LOWGEAR_ATTACHED_MARK.") +
        "last-1\"; : > \"$LOWGEAR_ATTACHED_MARK\"; kill -" + name + " $PPID; exec sleep 3600";
    const ProgramResult stopped = run({"--record", "out", "--", "sh", "-c", script});
    EXPECT_EQ(stopped.signal, number);
    EXPECT_THAT(stopped.err, HasSubstr("plans were followed in 3 of 9 iterations\n"));
    EXPECT_THAT(stopped.err, HasSubstr("stopped by signal " + std::to_string(number) + " ("));
  }
}

TEST(RunCommand, FailsUnderStrictWhereItsPlanWasNotFollowed) {
  const TemporaryFolder folder;
  write_text(folder / "plan.json", "{}");
  const std::filesystem::path socket = folder / "lease.sock";
  const FileDescriptor agent = ipc::listen_unix(socket, 0600, std::nullopt);
  const auto of = [&](std::vector<std::string> words, const std::string& line) {
    const std::string script = "echo " + line + " >> \"$LOWGEAR_ATTACHED_MARK\"";
    words.insert(words.end(), {"--plan", folder / "plan.json", "--", "sh", "-c", script});
    return run_lowgear(words, [&] { ::setenv("LOWGEAR_AGENT_SOCKET", socket.c_str(), 1); });
  };
  EXPECT_EQ(of({"run", "--strict"}, "plans were followed in 1 of 4 iterations").exit_code, 0);
  EXPECT_EQ(of({"run"}, "no plan was followed in 4 iterations").exit_code, 0);
  const ProgramResult failed = of({"run", "--strict"}, "no plan was followed in 4 iterations: there are no units");
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, HasSubstr("no plan was followed in 4 iterations: there are no units"));
}

TEST(RunCommand, SaysItOncePerJobAndForCommandsWithinEachOther) {
  const auto of_rank = [](const char* rank) {
    return run_lowgear({"run", "--record", "out", "--", "true"}, [rank] {
      ::setenv("RANK", rank, 1);
      ::setenv("WORLD_SIZE", "2", 1);
    });
  };
  EXPECT_THAT(of_rank("0").err, HasSubstr("nothing attached"));
  EXPECT_EQ(of_rank("1").err, "");
  const std::vector<std::string> inner = {"--record", "out", "--", LOWGEAR_BINARY, "run",
                                          "--record", "out", "--", "true"};
  const std::string said = run(inner).err;
  EXPECT_NE(said.find("nothing attached"), std::string::npos);
  EXPECT_EQ(said.find("nothing attached"), said.rfind("nothing attached"));
}

TEST(RunCommand, IsStrictAlsoWithinAnother) {
  const auto within = [](const std::string& script) {
    return run(
        {"--record", "out", "--", LOWGEAR_BINARY, "run", "--strict", "--record", "out", "--", "sh", "-c", script});
  };
  const ProgramResult nothing = within("true");
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_EQ(nothing.err.find("nothing attached"), nothing.err.rfind("nothing attached"));
  const ProgramResult attached = within(": > \"$LOWGEAR_ATTACHED_MARK\"");
  EXPECT_EQ(attached.exit_code, 0);
  EXPECT_EQ(attached.err, "") << "the outer one knows";
}

TEST(RunCommand, SaysBeforeTheCommandWhatIsMissing) {
  const TemporaryFolder folder;
  write_text(folder / "file", "");
  const auto start = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"run", "--server", "unix:" + (folder / "server.sock").string(), "--record",
                                     (folder / "file" / "out").string()});
    options.insert(options.end(), {"--", "touch", (folder / "it_ran").string()});
    return run_lowgear(options, [&] { ::setenv("LOWGEAR_AGENT_SOCKET", (folder / "lease.sock").c_str(), 1); });
  };
  const ProgramResult strict = start({"--strict"});
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_THAT(strict.err, HasSubstr("nothing was started"));
  EXPECT_FALSE(std::filesystem::exists(folder / "it_ran"));
  const ProgramResult result = start({});
  EXPECT_EQ(result.exit_code, 0) << "training does not depend on any of it";
  EXPECT_TRUE(std::filesystem::exists(folder / "it_ran"));
  for (const char* line : {"no server answers", "no agent answers on this machine", "lowgear agent --config FILE",
                           "nothing can be recorded in", "file/out: Not a directory"}) {
    EXPECT_THAT(result.err, HasSubstr(line));
    EXPECT_THAT(strict.err, HasSubstr(line));
  }
}

TEST(RunCommand, StartsTheCommandWhereItCannotBeWatched) {
  const TemporaryFolder folder;
  const auto start = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"run", "--record", (folder / "out").string()});
    options.insert(options.end(), {"--", "sh", "-c", "exit 3"});
    return run_lowgear(options, [] { ::setenv("TMPDIR", "/no/such/folder", 1); });
  };
  const ProgramResult result = start({});
  EXPECT_EQ(result.exit_code, 3) << "training does not depend on it";
  EXPECT_THAT(result.err, HasSubstr("is not watched"));
  const ProgramResult strict = start({"--strict"});
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_THAT(strict.err, HasSubstr("nothing was started"));
}

TEST(RunCommand, TakesTheCommandAlongWhenItIsKilled) {
  const TemporaryFolder folder;
  const std::string script = "echo $$ > " + (folder / "new").string() + "; mv " + (folder / "new").string() + " " +
                             (folder / "pid").string() + "; exec sleep 1000";
  LowgearProcess process({"run", "--record", folder / "out", "--", "sh", "-c", script});
  while (!std::filesystem::exists(folder / "pid")) ASSERT_TRUE(process.running());
  const pid_t command = std::stoi(read_file(folder / "pid"));
  process.send_signal(SIGKILL);
  EXPECT_EQ(process.wait().signal, SIGKILL);
  const std::filesystem::path program = "/proc/" + std::to_string(command) + "/exe";  // a zombie has none
  std::error_code unknown;
  while (std::filesystem::exists(program, unknown)) ::usleep(10'000);
}

TEST(RunCommand, PassesASignalOnOnce) {
  const TemporaryFolder folder;
  const std::string script = "trap 'echo interrupted' INT; : > " + (folder / "ready").string() + "; while [ ! -e " +
                             (folder / "end").string() + " ]; do sleep 0.01; done";
  LowgearProcess process({"run", "--record", folder / "out", "--", "sh", "-c", script},
                         [] { ::signal(SIGINT, SIG_DFL); });  // a shell's trap needs it
  while (!std::filesystem::exists(folder / "ready")) ASSERT_TRUE(process.running());
  process.send_signal(SIGINT);
  while (process.output().empty()) ASSERT_TRUE(process.running());
  write_text(folder / "end", "");
  const ProgramResult result = process.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "interrupted\n");
}

TEST(RunCommand, RefusesWhatMakesNoSense) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      run({"--", "true"}).err,
      HasSubstr(
          "add --server ADDRESS, --plan DIR, --steps PROFILE.csv, --search slowdown=2%, --record DIR or --share"));
  EXPECT_THAT(run({"--plan", folder / "none", "--", "true"}).err,
              HasSubstr("none: no such file or folder; name a plan or an output folder of lowgear plan"));
  EXPECT_THAT(refusal_of(run({"--server", "http://a", "--plan", folder / "x", "--", "touch", folder / "it_ran"})),
              HasSubstr("plans come from one of them"));
  EXPECT_FALSE(std::filesystem::exists(folder / "it_ran"));
}

TEST(RunCommand, SaysWhatItWouldDo) {
  const TemporaryFolder folder;
  const ProgramResult result = run({"--record", folder / "out", "--dry-run", "--", "touch", folder / "it_ran"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("LOWGEAR_RECORDING=" + (folder / "out").string() + "\n"));
  EXPECT_THAT(result.out, HasSubstr("touch " + (folder / "it_ran").string() + "\nNothing was started.\n"));
  EXPECT_FALSE(std::filesystem::exists(folder / "it_ran"));
}

}  // namespace
}  // namespace lowgear::operations
