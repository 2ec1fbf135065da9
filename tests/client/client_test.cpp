#include "client/client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/eventually.h"
#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "base/core/monotonic_clock.h"
#include "client/fake_cuda/loaded_fake_cuda.h"
#include "client/fake_server.h"
#include "client/lowgear.h"
#include "client/test_agent.h"
#include "planning/plan/plan_json.h"

namespace lowgear::client {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kNoWrites = "the agent changed no clocks, as it runs with --no-writes";

/// A folder, and two simulated GPUs.
class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    std::string name = (fs::temp_directory_path() / "lg-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    setenv("LOWGEAR_SIMGPU", (folder_ / "machine").c_str(), 1);
    setenv("LOWGEAR_SIMGPU_GPUS", "2xH100", 1);
    setenv("LOWGEAR_NVML", LOWGEAR_NVML_LIBRARY, 1);
    options_.agent_socket = folder_ / "lease.sock";
    options_.agent_timeout = kPatience;
    options_.reconnect_after = 10ms;
    options_.drain_period = 5ms;
  }
  ~ClientTest() override { fs::remove_all(folder_); }

  std::unique_ptr<Client> open() { return std::make_unique<Client>(options_, no_environment_); }
  fs::path plan() {
    plan::Plan plan;
    plan.policy = "test";
    plan.schedule = "gpipe";
    plan.microbatches = 1;
    plan.time_s = plan.deadline_s = 1;
    plan.ranks = {{{.clock_mhz = 1200, .duration_s = 1}}, {{.stage = 1, .clock_mhz = 1500, .duration_s = 1}}};
    write_file_atomically(folder_ / "plan.json", write_plan(plan));
    return folder_ / "plan.json";
  }
  static void run_units(Client& client, int count) {
    client.iteration_begin();
    for (int i = 0; i < count; ++i) {
      client.unit_begin(OpKind::forward, 1, static_cast<std::uint32_t>(i));
      client.unit_end(OpKind::forward, 1, static_cast<std::uint32_t>(i));
    }
    client.iteration_end();
  }

  fs::path folder_;
  Options options_;
  Environment no_environment_ = [](std::string_view) { return std::nullopt; };
  Environment marked_ = [this](std::string_view name) {
    return name == "LOWGEAR_ATTACHED_MARK" ? std::optional((folder_ / "mark").string()) : std::nullopt;
  };
};

TEST_F(ClientTest, TellsTheAgentWhatBegins) {
  TestAgent agent(options_.agent_socket);
  options_.rank.rank = 3;
  options_.job = "run 7";
  const auto client = open();
  run_units(*client, 2);
  ASSERT_TRUE(eventually([&] { return agent.events() == 6; }));
  const std::vector<ipc::UnitEvent> units = agent.units();
  EXPECT_EQ(units[0].type, ipc::UnitEventType::iteration_begin);
  EXPECT_EQ(units[1].type, ipc::UnitEventType::unit_begin);
  EXPECT_EQ(units[1].stage, 1);
  EXPECT_EQ(units[3].microbatch, 1U);
  EXPECT_EQ(units[4].type, ipc::UnitEventType::unit_end);
  EXPECT_EQ(units[5].type, ipc::UnitEventType::iteration_end);
  EXPECT_EQ(agent.hellos().at(0).rank, 3U);
  EXPECT_EQ(agent.hellos().at(0).job, "run 7");
  EXPECT_TRUE(client->status().has_lease);
  EXPECT_TRUE(client->status().simulated);
}

TEST_F(ClientTest, HandsOverItsRankOfThePlan) {
  TestAgent agent(options_.agent_socket);
  options_.rank.rank = 5;
  options_.rank.world_size = 6;
  options_.place.pp_rank = 1;
  const auto client = open();
  EXPECT_EQ(client->status().pp_rank, 1);
  client->load_plan(plan(), std::nullopt, true);
  EXPECT_EQ(agent.plans().at(0).plan_rank, 1U);
  EXPECT_TRUE(agent.plans().at(0).nearest_below);
  EXPECT_TRUE(client->status().has_plan);
  EXPECT_THROW(client->load_plan(plan(), 2, false), InputError);
  EXPECT_THROW(client->load_plan(folder_ / "none.json", std::nullopt, false), InputError);
}

TEST_F(ClientTest, RefusesAPlanWhoseRankIsNotCertain) {
  TestAgent agent(options_.agent_socket);
  options_.rank.rank = 1;
  options_.rank.world_size = 4;  // of pp 2 x tp 2: the first stage in Megatron's order, the second modulo the plan
  {
    const auto client = open();
    EXPECT_THAT(error_of([&] { client->load_plan(plan(), std::nullopt, false); }),
                AllOf(HasSubstr("plan.json"), HasSubstr("rank 1 of 4"), HasSubstr("pass pp_rank")));
    EXPECT_FALSE(client->status().has_plan);
    EXPECT_FALSE(client->status().pp_rank);
    EXPECT_THAT(client->status().place, HasSubstr("pass pp_rank"));
  }
  options_.place.order = RankOrder::parse("megatron");
  const auto client = open();
  EXPECT_FALSE(client->status().stage) << "the plan tells how long the pipeline is";
  client->load_plan(plan(), std::nullopt, false);
  EXPECT_EQ(agent.plans().at(0).plan_rank, 0U);
  EXPECT_EQ(client->status().pp_rank, 0);
  EXPECT_EQ(client->status().stage, 0);
  client->load_plan(plan(), 1, false);
  EXPECT_EQ(client->status().stage, 1) << "that of the plan which is followed";
}

TEST_F(ClientTest, KnowsTheOnlyStageOfItsRank) {
  options_.agent_socket.clear();
  options_.place.pp_rank = 1;
  EXPECT_EQ(open()->status().stage, 1);
  options_.place.sizes = JobSizes{.pp = 2, .stage_is_pp_rank = false};
  EXPECT_EQ(open()->status().pp_rank, 1);
  EXPECT_FALSE(open()->status().stage);
  EXPECT_THAT(open()->status().place, HasSubstr("name the stage"));
}

TEST_F(ClientTest, TellsAServerNoPlaceThatIsNotCertain) {
  options_.server.address = "unix:/no/such/server";
  options_.server.job_json = R"({"run": "r", "parallel": {"pp": 2, "dp": 2}})";
  options_.place.sizes = read_job_sizes(options_.server.job_json);
  options_.rank.world_size = 4;
  EXPECT_THAT(error_of([&] { (void)open(); }), HasSubstr("pass pp_rank"));
  options_.place.pp_rank = 0;
  EXPECT_THAT(error_of([&] { (void)open(); }), HasSubstr("pass dp_rank"));
  options_.place.dp_rank = 0;
  EXPECT_EQ(open()->status().pp_rank, 0);
}

TEST_F(ClientTest, ContinuesWithoutAnAgent) {
  const auto client = open();
  EXPECT_FALSE(client->status().has_lease);
  EXPECT_THAT(client->status().problem, HasSubstr("no agent responds"));
  EXPECT_THROW(client->load_plan(plan(), 0, false), Error);
  run_units(*client, 3);
  EXPECT_EQ(client->status().units, 3U);
}

TEST_F(ClientTest, SaysAtItsEndWhatItFollowed) {
  const fs::path mark = folder_ / "mark";
  {
    TestAgent agent(options_.agent_socket);
    Client client(options_, marked_);
    run_units(client, 1);
    EXPECT_EQ(client.followed(), "") << "it was given no plan";
    client.load_plan(plan(), 0, false);
    run_units(client, 1);
    run_units(client, 1);
    run_units(client, 0);
    EXPECT_EQ(client.followed(), "plans were followed in 2 of 4 iterations") << "one had no units to set clocks for";
    client.name_plans("clocks");
    EXPECT_EQ(client.followed(), "clocks were followed in 2 of 4 iterations");
    client.name_plans("plans");
  }
  EXPECT_EQ(read_file(mark), "plans were followed in 2 of 4 iterations\n");
  fs::remove(mark);
  {
    Client client(options_, marked_);
    EXPECT_THROW(client.load_plan(plan(), 0, false), Error);
    run_units(client, 1);
  }
  EXPECT_THAT(read_file(mark),
              AllOf(HasSubstr("no plan was followed in 1 iterations: "), HasSubstr("no agent responds")));
}

TEST_F(ClientTest, SaysAtItsEndWhyClocksCouldNotBeSetBefore) {
  TestAgentBehaviour refuses;
  refuses.refuse = "another job has it";
  auto agent = std::make_unique<TestAgent>(options_.agent_socket, refuses);
  const auto client = open();
  EXPECT_THROW(client->load_plan(plan(), 1, false), Error);
  run_units(*client, 1);
  agent.reset();
  agent = std::make_unique<TestAgent>(options_.agent_socket);
  ASSERT_TRUE(eventually([&] { return client->status().has_plan; }));
  EXPECT_THAT(client->followed(), HasSubstr("no plan was followed in 1 iterations: for a time the GPU was not leased"));
  agent->set_clocks_held(false);
  run_units(*client, 1);
  EXPECT_THAT(client->followed(),
              HasSubstr("no plan was followed in 2 iterations: the agent could not set the plan's"));
  agent->set_clocks_held(true);
  run_units(*client, 1);
  EXPECT_THAT(client->followed(), HasSubstr("plans were followed in 1 of 3 iterations; the agent could not set the"));
}

TEST_F(ClientTest, NamesAgentAndServerWhereBothAreMissing) {
  options_.server.address = "unix:/no/such/server";
  options_.server.job_json = R"({"run": "r"})";
  const auto client = open();
  run_units(*client, 1);
  while (client->status().server_problem.empty()) std::this_thread::yield();
  EXPECT_THAT(client->followed(), AllOf(HasSubstr("/no/such/server"), HasSubstr("no agent responds")));
}

TEST_F(ClientTest, NamesTheSearchWhereNoUnitIsMarked) {
  TestAgent agent(options_.agent_socket);
  const FakeServer server(folder_ / "server.sock");
  options_.server.address = "unix:" + (folder_ / "server.sock").string();
  options_.server.job_json = R"({"run": "r"})";
  const auto client = open();
  ASSERT_TRUE(eventually([&] { return client->status().server_connected; }));
  run_units(*client, 0);
  EXPECT_THAT(client->followed(),
              AllOf(HasSubstr("no unit was marked"), HasSubstr("lowgear run --search slowdown=2%")));
}

TEST_F(ClientTest, SaysWhyTheAgentRefuses) {
  TestAgent agent(options_.agent_socket, {.refuse = "another job has it", .refuse_plan = {}});
  options_.rank.rank = options_.rank.local_rank = 1;
  options_.rank.world_size = 2;
  testing::internal::CaptureStderr();
  auto client = open();
  EXPECT_THAT(client->status().problem, HasSubstr("another job has it"));
  const std::string gpu = client->status().gpu_uuid;
  EXPECT_THROW(client->load_plan(plan(), 1, false), Error);
  client.reset();
  const std::string line = "lowgear: warning: no plan is followed on " + gpu + ": another job has it\n";
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr(line)) << "each rank names its own GPU";
  EXPECT_EQ(said.find(line), said.rfind(line)) << "said once";
}

TEST_F(ClientTest, TellsTheServerWhetherAndWhyTheAgentSetsNoClocks) {
  options_.server.address = "unix:" + (folder_ / "server.sock").string();
  options_.server.job_json = R"({"run": "r"})";
  TestAgentBehaviour busy;
  busy.refuse = "another job has it";
  TestAgentBehaviour forbidden;
  forbidden.refuse = "user 7 may not change it";
  forbidden.refusal_lasts = true;
  TestAgentBehaviour dry;
  dry.dry_run = true;
  for (const TestAgentBehaviour& behaviour : {forbidden, dry, busy}) {
    auto agent = std::make_unique<TestAgent>(options_.agent_socket, behaviour);
    const FakeServer server(folder_ / "server.sock");
    const auto client = open();
    ASSERT_TRUE(eventually([&] { return server.count("/reports") > 0; }));
    EXPECT_EQ(server.bodies("/ranks").at(0)["follows_plans"].get<bool>(), behaviour.refuse == busy.refuse);
    EXPECT_EQ(server.bodies("/reports").at(0)["refusal"], behaviour.refuse.value_or(kNoWrites));
    if (behaviour.refuse != busy.refuse) continue;
    const auto newest = [&] { return server.bodies("/reports").back().value("refusal", ""); };
    for (const auto& [next, refusal] : {std::pair(TestAgentBehaviour(), ""), {dry, kNoWrites}}) {
      agent.reset();
      agent = std::make_unique<TestAgent>(options_.agent_socket, next);
      EXPECT_TRUE(eventually([&] { return newest() == refusal; })) << newest();
    }
  }
}

TEST_F(ClientTest, StatesALongReasonWithTheRemedyAtItsEnd) {
  TestAgent agent(options_.agent_socket);
  const auto client = open();
  client->load_plan(plan(), 0, false);
  client->refuse(std::string(400, 'x') + "; plan again with --schedule gpipe");
  run_units(*client, 1);
  EXPECT_THAT(client->followed(), testing::EndsWith("x; plan again with --schedule gpipe"));
}

TEST_F(ClientTest, KeepsARecordForAnEndWithoutAWord) {
  const fs::path mark = folder_ / "mark";
  const auto record = [&] {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      if (entry.path().filename().string().starts_with("mark.last-")) return read_file(entry.path());
    }
    return std::string();
  };
  TestAgent agent(options_.agent_socket);
  {
    Client client(options_, marked_);
    client.load_plan(plan(), 1, false);
    run_units(client, 1);
    EXPECT_TRUE(eventually([&] { return record() == "plans were followed in 1 of 1 iterations\n"; }));
  }
  EXPECT_EQ(record(), "") << "it has left its last line";
  EXPECT_EQ(read_file(mark), "plans were followed in 1 of 1 iterations\n");
  options_.agent_socket = folder_ / "no.sock";
  Client client(options_, marked_);
  EXPECT_THROW(client.load_plan(plan(), 1, false), Error);
  run_units(client, 1);
  const std::string expected =
      fmt::format("no plan was followed in 1 iterations: {}: no agent responds", options_.agent_socket.string());
  EXPECT_TRUE(eventually([&] { return record().starts_with(expected); })) << record();
}

TEST_F(ClientTest, IsNamedWithoutAServerWhereItLeavesNoWord) {
  options_.agent_socket.clear();
  for (const bool closes : {true, false}) {
    const pid_t child = fork();
    if (child == 0) {
      auto client = std::make_unique<Client>(options_, marked_);
      if (closes) client.reset();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    const std::set<int> gone = finish_gone_ranks(folder_ / "mark", "", 0ms).numbers;
    EXPECT_EQ(gone, closes ? std::set<int>() : std::set{options_.rank.rank});
  }
}

TEST_F(ClientTest, SaysWhyThePlanIsRefused) {
  TestAgent agent(options_.agent_socket, {.refuse = {}, .refuse_plan = "1200 MHz is too low"});
  const auto client = open();
  EXPECT_THROW(client->load_plan(plan(), 0, false), LeaseRefused);
  EXPECT_FALSE(client->status().has_plan);
  EXPECT_TRUE(client->status().has_lease);
}

TEST_F(ClientTest, TakesItsLeaseAndPlanAgainWhenTheAgentComesBack) {
  auto agent = std::make_unique<TestAgent>(options_.agent_socket);
  auto client = open();
  client->load_plan(plan(), 1, false);
  testing::internal::CaptureStderr();
  agent.reset();
  run_units(*client, 5);
  ASSERT_TRUE(eventually([&] { return !client->status().has_lease; }));
  run_units(*client, 5);
  TestAgent back(options_.agent_socket);
  ASSERT_TRUE(eventually([&] { return client->status().has_plan; }));
  EXPECT_EQ(back.plans().at(0).plan_rank, 1U);
  run_units(*client, 5);
  EXPECT_TRUE(eventually([&] { return back.events() >= 12; }));
  EXPECT_EQ(client->status().reconnects, 1U);
  EXPECT_EQ(client->status().units, 15U);
  EXPECT_THAT(client->followed(), HasSubstr(" of 3 iterations; for a time the GPU was not leased: "));
  client.reset();
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* line : {"; training continues without plans\n", "the agent leases the GPU again\n"}) {
    EXPECT_THAT(said, HasSubstr(line));
    EXPECT_EQ(said.find(line), said.rfind(line)) << "said once";
  }
}

TEST_F(ClientTest, HandsOverLaterAPlanThatNobodyTook) {
  const auto client = open();
  EXPECT_THROW(client->load_plan(plan(), 0, false), Error);
  TestAgent agent(options_.agent_socket);
  EXPECT_TRUE(eventually([&] { return client->status().has_plan; }));
}

TEST_F(ClientTest, GivesTheLeaseBackWhenItCloses) {
  TestAgent agent(options_.agent_socket);
  open().reset();
  EXPECT_TRUE(eventually([&] { return agent.released() == 1; }));
}

TEST_F(ClientTest, TrustsNoAgentThatCouldCutItsMemoryOff) {
  TestAgent agent(options_.agent_socket, {.refuse = {}, .refuse_plan = {}, .answers = true, .seals = false});
  EXPECT_THAT(open()->status().problem, HasSubstr("same release"));
}

TEST_F(ClientTest, TakesNoRingOfAnotherVersion) {
  TestAgentBehaviour behaviour;
  behaviour.ring_version = 99;
  TestAgent agent(options_.agent_socket, behaviour);
  EXPECT_THAT(open()->status().problem, HasSubstr("another version"));
}

TEST_F(ClientTest, DoesNotWaitForAnAgentThatIsSilentOrMad) {
  options_.agent_timeout = 50ms;
  {
    TestAgentBehaviour silent;
    silent.answers = false;
    TestAgent agent(options_.agent_socket, silent);
    EXPECT_THAT(open()->status().problem, HasSubstr("does not respond"));
  }
  TestAgentBehaviour mad;
  mad.talks_nonsense = true;
  TestAgent agent(options_.agent_socket, mad);
  EXPECT_THAT(open()->status().problem, HasSubstr("not a lease message"));
}

TEST_F(ClientTest, CountsUnitsThatDoNotMatch) {
  const auto client = open();
  client->unit_end(OpKind::forward, 0, 0);
  client->unit_begin(OpKind::forward, 0, 0);
  client->unit_begin(OpKind::forward, 0, 1);
  client->unit_end(OpKind::forward, 0, 1);
  client->unit_begin(OpKind::forward, 0, 2);
  client->unit_end(OpKind::backward, 0, 2);
  client->iteration_end();
  EXPECT_EQ(client->status().mismatched, 3U);
  EXPECT_EQ(client->status().units, 1U);
  client->iteration_begin();
  EXPECT_EQ(client->status().mismatched, 5U) << "two have not ended";
}

TEST_F(ClientTest, MeasuresTheIterationThatEndedLast) {
  options_.measures_iterations = true;
  const auto client = open();
  EXPECT_FALSE(client->measured_iteration(0));
  for (std::uint64_t number = 0; number < 3; ++number) {
    run_units(*client, 2);
    const std::optional<MeasuredIteration> measured = client->measured_iteration(number);
    ASSERT_TRUE(measured);
    EXPECT_TRUE(measured->energy_j && measured->energy_error_j) << measured->energy_problem;
    EXPECT_EQ(measured->wait_s.size(), 2U);
    EXPECT_FALSE(client->measured_iteration(number + 1));
  }
  client->iteration_begin({.number = 9});
  EXPECT_EQ(client->measured_iteration(2).value().iteration, 2U) << "the one under way has not ended";
}

TEST_F(ClientTest, RecordsWhatTheProfilerReads) {
  TestAgent agent(options_.agent_socket);
  options_.recording.folder = folder_ / "run";
  options_.rank.rank = 2;
  options_.rank.world_size = 4;
  {
    const auto client = open();
    agent.set_requested_clock(1200);
    for (int i = 0; i < 3; ++i) run_units(*client, 4);
    const auto window = client->window_begin("w");  // waits for the counter: some samples are there
    EXPECT_GE(client->window_end(window).gpus.at(0).energy_j.value(), 0);
  }
  const fs::path rank = folder_ / "run" / "rank-00002";
  const std::string units = read_file(rank / "units.csv");
  EXPECT_THAT(units,
              HasSubstr("iteration,stage,instruction,microbatch,start_s,end_s,frequency,settling\n0,1,forward,0,"));
  EXPECT_EQ(std::ranges::count(units, '\n'), 1 + 12);
  EXPECT_THAT(units, HasSubstr(",1200,0\n"));
  EXPECT_EQ(std::ranges::count(read_file(rank / "iterations.csv"), '\n'), 1 + 3);
  EXPECT_GT(std::ranges::count(read_file(rank / "energy.csv"), '\n'), 2);
  const std::string header = read_file(rank / "recording.json");
  EXPECT_THAT(header, HasSubstr("\"format\": \"lowgear.recording/1\""));
  EXPECT_THAT(header, HasSubstr("\"simulated\": true"));
  EXPECT_THAT(header, HasSubstr("\"iterations\": 3"));
  EXPECT_THAT(header, HasSubstr("\"boot_id\": \"" + boot_id()));
  EXPECT_THAT(header, HasSubstr("\"start_monotonic_s\": "));
  EXPECT_THROW((void)open(), InputError) << "a recording is never overwritten";
}

TEST_F(ClientTest, RecordsTheTextOfItsFailureAndTellsOthersItsKindAlone) {
  options_.agent_socket.clear();
  options_.recording.folder = folder_ / "run";
  {
    Client client(options_, marked_);
    client.set_failure("RuntimeError");
    client.set_failure_text("token abc: unknown");
  }
  EXPECT_THAT(read_file(folder_ / "run/rank-00000/recording.json"), HasSubstr("\"failure\": \"token abc: unknown\""));
  EXPECT_THAT(read_file(folder_ / "mark"),
              testing::AllOf(HasSubstr("rank 0 failed (RuntimeError)"), testing::Not(HasSubstr("abc"))));
}

TEST_F(ClientTest, RecordsTheIterationsThatAreAskedFor) {
  options_.agent_socket.clear();
  options_.recording.folder = folder_ / "run";
  options_.recording.iterations.first = 11;
  options_.recording.iterations.count = 2;
  {
    const auto client = open();
    run_units(*client, 1);
    for (std::uint64_t number = 10; number < 15; ++number) {
      client->iteration_begin({.number = number, .settling = number == 11});
      client->unit_begin(OpKind::forward, 0, 0);
      client->unit_end(OpKind::forward, 0, 0);
      client->iteration_end();
    }
  }
  std::vector<std::pair<std::string, std::string>> recorded;  // iteration, settling
  const CsvTable units(read_file(folder_ / "run/rank-00000/units.csv"), "units.csv");
  for (std::size_t row = 0; row < units.rows(); ++row) {
    recorded.emplace_back(units.text(row, units.column("iteration")), units.text(row, units.column("settling")));
  }
  EXPECT_THAT(recorded, testing::ElementsAre(testing::Pair("11", "1"), testing::Pair("12", "0")));
  EXPECT_EQ(std::ranges::count(read_file(folder_ / "run/rank-00000/iterations.csv"), '\n'), 1 + 2);
}

TEST_F(ClientTest, ContinuesCountingFromTheNumberThatItWasGiven) {
  options_.agent_socket.clear();
  options_.recording.folder = folder_ / "run";
  {
    const auto client = open();
    client->iteration_begin({.number = 7});
    client->iteration_end();
    run_units(*client, 1);
  }
  EXPECT_THAT(read_file(folder_ / "run/rank-00000/units.csv"), HasSubstr("\n8,1,forward,0,"));
}

TEST_F(ClientTest, RecordsWhatIsRepeatedAsAPartOfItsOwn) {
  options_.agent_socket.clear();
  options_.recording.folder = folder_ / "run";
  {
    const auto client = open();
    for (const std::uint64_t number : {5U, 6U, 9U, 8U, 9U, 10U}) {
      client->iteration_begin({.number = number});
      client->unit_begin(OpKind::forward, 0, 0);
      client->unit_end(OpKind::forward, 0, 0);
      client->iteration_end();
    }
  }
  const auto iterations = [&](const char* part) {
    std::vector<std::string> numbers;
    for (const char* name : {"units.csv", "iterations.csv"}) {
      const CsvTable table(read_file(folder_ / part / "rank-00000" / name), name);
      for (std::size_t row = 0; row < table.rows(); ++row) {
        numbers.push_back(table.text(row, table.column("iteration")));
        EXPECT_GE(table.number(row, table.column("start_s")), 0);
      }
    }
    return numbers;
  };
  EXPECT_THAT(iterations("run"), testing::ElementsAre("5", "6", "9", "5", "6", "9"));
  EXPECT_THAT(iterations("run/part-00001"), testing::ElementsAre("8", "9", "10", "8", "9", "10"));
  EXPECT_FALSE(fs::exists(folder_ / "run/part-00002"));
}

TEST_F(ClientTest, RefusesPlansForGood) {
  TestAgent agent(options_.agent_socket);
  const auto client = open();
  client->load_plan(plan(), 0, false);
  EXPECT_EQ(client->status().not_following, "");
  client->refuse("stage.py has changed");
  client->refuse("another reason");
  EXPECT_EQ(client->status().not_following, "stage.py has changed");
  EXPECT_FALSE(client->status().has_plan);
  EXPECT_FALSE(client->status().has_lease);
  EXPECT_THAT(client->status().problem, HasSubstr("plans are not followed: stage.py has changed"));
  EXPECT_TRUE(eventually([&] { return agent.released() == 1; })) << "clocks are free";
  EXPECT_THROW(client->load_plan(plan(), 0, false), LeaseRefused);
  EXPECT_THROW(client->follow_again(), LeaseRefused);
  run_units(*client, 3);
  EXPECT_EQ(client->status().units, 3U) << "measuring continues";
  EXPECT_EQ(agent.hellos().size(), 1U) << "the GPU is not asked for again";
  EXPECT_EQ(agent.events(), 0U);
}

TEST_F(ClientTest, StopsFollowingForAWhile) {
  TestAgent agent(options_.agent_socket);
  const auto client = open();
  client->load_plan(plan(), 0, false);
  client->stop_following();
  EXPECT_FALSE(client->status().has_lease);
  EXPECT_THROW(client->load_plan(plan(), 0, false), LeaseRefused);
  client->follow_again();
  EXPECT_TRUE(client->status().has_lease);
  EXPECT_FALSE(client->status().has_plan) << "it is to be loaded again";
  EXPECT_EQ(client->status().not_following, "");
  client->load_plan(plan(), 0, false);
  EXPECT_TRUE(client->status().has_plan);
}

TEST_F(ClientTest, RefusesPlansWhenTheScheduleDiffers) {
  TestAgent agent(options_.agent_socket);
  const auto client = open();
  client->load_plan(plan(), 0, false);
  client->expect({{.microbatch = 0, .stage = 1}, {.microbatch = 1, .stage = 1}}, true);
  run_units(*client, 2);
  EXPECT_EQ(client->status().not_following, "");
  EXPECT_TRUE(client->status().has_plan);
  run_units(*client, 3);
  EXPECT_EQ(client->status().not_following,
            "the schedule differs: iteration 1, unit 2: expected the end of the iteration, got forward 2 of stage 1");
  EXPECT_FALSE(client->status().has_lease);
  EXPECT_EQ(client->status().differing_iterations, 1U);
  run_units(*client, 1);
  EXPECT_EQ(client->status().differing_iterations, 2U);
  EXPECT_EQ(client->status().units, 6U);
}

TEST_F(ClientTest, RefusesByItselfWithoutBeingAsked) {
  TestAgent agent(options_.agent_socket);
  const auto client = open();
  client->expect({{.microbatch = 7}}, true);
  run_units(*client, 1);
  EXPECT_TRUE(eventually([&] { return agent.released() == 1; }));
}

TEST_F(ClientTest, CountsMicrobatchesThatTheProgramDoesNotName) {
  options_.agent_socket.clear();
  options_.recording.folder = folder_ / "run";
  {
    const auto client = open();
    client->expect({{.microbatch = 0}, {.microbatch = 1}, {.microbatch = 0, .kind = OpKind::backward}}, true);
    for (int i = 0; i < 2; ++i) {
      client->iteration_begin();
      for (const OpKind kind : {OpKind::forward, OpKind::forward, OpKind::backward}) {
        client->unit_begin(kind, 0, kNextMicrobatch);
        client->unit_end(kind, 0, kNextMicrobatch);
      }
      client->unit_end(OpKind::input_gradient, 0, kNextMicrobatch);  // none has begun
      client->iteration_end();
    }
    EXPECT_EQ(client->status().difference, "");
    EXPECT_EQ(client->status().mismatched, 2U);
  }
  EXPECT_THAT(read_file(folder_ / "run/rank-00000/units.csv"),
              AllOf(HasSubstr("\n1,0,forward,0,"), HasSubstr("\n1,0,forward,1,"), HasSubstr("\n1,0,backward,0,")));
}

TEST_F(ClientTest, RecordsUnitsThatNoScheduleHas) {
  options_.agent_socket.clear();
  options_.recording.folder = folder_ / "run";
  {
    const auto client = open();
    client->iteration_begin();
    client->unit_begin(OpKind::forward_backward, 2, 5);
    client->unit_end(OpKind::forward_backward, 2, 5);
    client->iteration_end();
  }
  EXPECT_THAT(read_file(folder_ / "run/rank-00000/units.csv"), HasSubstr("\n0,2,forward_backward,5,"));
}

/// A client on the stand-in for CUDA's driver.
class StreamClientTest : public ClientTest {
 protected:
  StreamClientTest() {
    no_environment_ = [this](std::string_view name) {
      return name == "LOWGEAR_CUDA" ? std::optional(cuda_.path()) : std::nullopt;
    };
  }

  LoadedFakeCuda cuda_{LOWGEAR_FAKE_CUDA};
  StreamDriver::Stream stream_ = &cuda_;
};

TEST_F(StreamClientTest, TellsTheAgentWhatBeginsWhenTheGpuHasComeToIt) {
  TestAgent agent(options_.agent_socket);
  options_.recording.folder = folder_ / "run";
  auto client = open();
  run_units(*client, 1);
  ASSERT_TRUE(eventually([&] { return agent.events() == 4; }));
  client->use_stream(stream_);
  EXPECT_TRUE(client->status().follow_stream);
  const auto marked_ns = static_cast<std::uint64_t>(monotonic_ns());
  run_units(*client, 2);
  EXPECT_EQ(client->status().units, 1U) << "the GPU has not come to them";
  EXPECT_EQ(agent.events(), 4U);
  std::this_thread::sleep_for(20ms);
  const auto came_ns = static_cast<std::uint64_t>(monotonic_ns());
  cuda_.work(2);
  ASSERT_TRUE(eventually([&] { return agent.events() == 6; }));
  EXPECT_EQ(agent.units()[4].type, ipc::UnitEventType::iteration_begin);
  EXPECT_EQ(agent.units()[5].type, ipc::UnitEventType::unit_begin);
  EXPECT_GT(agent.units()[4].time_ns, marked_ns + (came_ns - marked_ns) / 2) << "half a look early at most";
  cuda_.work(100);
  ASSERT_TRUE(eventually([&] { return client->status().units == 3; }));
  client->use_stream(nullptr);
  run_units(*client, 1);
  EXPECT_EQ(client->status().units, 4U) << "at once";
  EXPECT_EQ(client->status().lost, 0U);
  client.reset();
  const std::string units = read_file(folder_ / "run/rank-00000/units.csv");
  EXPECT_EQ(std::ranges::count(units, '\n'), 1 + 4);
}

TEST_F(StreamClientTest, SaysWhyMarksAreTheHosts) {
  no_environment_ = [](std::string_view name) {
    return name == "LOWGEAR_CUDA" ? std::optional<std::string>("/no/such/libcuda.so") : std::nullopt;
  };
  const auto client = open();
  client->use_stream(stream_);
  run_units(*client, 2);
  EXPECT_EQ(client->status().units, 2U);
  EXPECT_FALSE(client->status().follow_stream);
  EXPECT_THAT(client->status().stream_problem, AllOf(HasSubstr("marks are the host's"), HasSubstr("/no/such/libcuda")));
}

TEST_F(StreamClientTest, ContinuesWithTheHostsMarksWhenTheDriverFails) {
  const auto client = open();
  client->use_stream(stream_);
  cuda_.set("idle", 1);
  run_units(*client, 1);
  cuda_.set("write_result", 700);
  run_units(*client, 2);
  EXPECT_TRUE(eventually([&] { return client->status().units == 3; }));
  EXPECT_THAT(client->status().stream_problem, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_FALSE(client->status().follow_stream);
  EXPECT_EQ(client->status().lost, 0U);
}

TEST_F(StreamClientTest, AChildLeavesTheParentsStreamAlone) {
  const std::string path = cuda_.path();
  setenv("LOWGEAR_CUDA", path.c_str(), 1);
  lowgear_options options = LOWGEAR_OPTIONS_INIT;
  options.agent_socket = "";
  lowgear_client* client = nullptr;
  ASSERT_EQ(lowgear_open(&options, &client), LOWGEAR_OK) << lowgear_last_error();
  unsetenv("LOWGEAR_CUDA");
  ASSERT_EQ(lowgear_use_stream(client, stream_), LOWGEAR_OK);
  EXPECT_EQ(lowgear_unit_begin(client, LOWGEAR_FORWARD, 0, LOWGEAR_NEXT), LOWGEAR_OK);
  const pid_t child = fork();
  if (child == 0) {
    const bool apart = lowgear_unit_end(client, LOWGEAR_FORWARD, 0, LOWGEAR_NEXT) == LOWGEAR_FORKED &&
                       lowgear_use_stream(client, nullptr) == LOWGEAR_FORKED && lowgear_close(client) == LOWGEAR_FORKED;
    _exit(apart ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cuda_.count("waiting"), 1);
  EXPECT_EQ(lowgear_unit_end(client, LOWGEAR_FORWARD, 0, LOWGEAR_NEXT), LOWGEAR_OK);
  cuda_.work(2);
  lowgear_status now{};
  now.struct_size = sizeof now;
  EXPECT_TRUE(eventually([&] { return lowgear_get_status(client, &now) == LOWGEAR_OK && now.units == 1; }));
  EXPECT_EQ(now.stream_marks, 1);
  EXPECT_EQ(lowgear_close(client), LOWGEAR_OK);
}

TEST_F(ClientTest, RecordsAResumedJobBesideWhatThereIs) {
  options_.agent_socket.clear();
  options_.recording.folder = folder_ / "run";
  options_.recording.existing = RecordingFolder::next_part;
  for (int i = 0; i < 3; ++i) run_units(*open(), 1);
  for (const char* part : {"run", "run/part-00001", "run/part-00002"}) {
    EXPECT_TRUE(fs::exists(folder_ / part / "rank-00000/recording.json")) << part;
  }
  EXPECT_FALSE(fs::exists(folder_ / "run/part-00003"));
  options_.recording.folder = folder_ / "machine";  // no folder
  EXPECT_THROW((void)open(), InputError);
}

TEST_F(ClientTest, ContinuesWhenTheDiskIsFull) {
  options_.recording.folder = folder_ / "run";
  options_.agent_socket.clear();
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const bool is_kept = freopen((folder_ / "said").c_str(), "w", stderr) != nullptr;
    auto client = std::make_unique<Client>(options_, marked_);
    const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 100; ++i) run_units(*client, 20);
    const bool told =
        eventually([&] { return client->status().problem.find("the recording ends after") != std::string::npos; });
    run_units(*client, 20);
    const bool went_on = client->status().units == 2020;
    client.reset();
    (void)fflush(stderr);
    _exit(is_kept && told && went_on ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (const char* name : {"units.csv", "iterations.csv", "energy.csv"}) {
    EXPECT_TRUE(read_file(folder_ / "run/rank-00000" / name).ends_with('\n')) << name << " ends within a line";
  }
  const std::string ends = (folder_ / "run/rank-00000: the recording ends after ").string();
  EXPECT_THAT(read_file(folder_ / "said"), testing::StartsWith("lowgear: warning: " + ends));
  EXPECT_THAT(read_file(folder_ / "mark"), testing::StartsWith(ends)) << "`lowgear run` says it at the end";
}

/// Ends the process on any system call but those of writing and leaving.
void forbid_system_calls() {
  const auto allow = [](std::uint32_t number) { return number; };
  std::array<sock_filter, 6> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allow(SYS_exit_group), 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allow(SYS_exit), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);  // of this thread alone
}

TEST_F(ClientTest, MarksUnitsWithoutASystemCall) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers make system calls of their own";
#endif
  TestAgent agent(options_.agent_socket);
  options_.recording.folder = folder_ / "run";
  options_.server.address = "unix:/no/such/server";
  options_.server.job_json = R"({"run": "r"})";
  const pid_t child = fork();
  if (child == 0) {
    const auto client = open();
    if (!client->status().has_lease) _exit(2);
    forbid_system_calls();
    for (int i = 0; i < 1000; ++i) run_units(*client, 20);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

TEST_F(ClientTest, ChecksItsGpu) {
  options_.gpu = "GPU-none";
  EXPECT_THROW((void)open(), InputError);
  options_.gpu.clear();
  options_.rank.local_rank = 2;
  EXPECT_THROW((void)open(), InputError);
}

TEST_F(ClientTest, ContinuesWhereItIsShownNoGpu) {
  TestAgent agent(options_.agent_socket);
  for (const char* shown : {"", "-1"}) {
    Client client(options_, [shown](std::string_view name) {
      return name == "CUDA_VISIBLE_DEVICES" ? std::optional<std::string>(shown) : std::nullopt;
    });
    EXPECT_THAT(client.status().problem, HasSubstr("sees no GPU"));
    EXPECT_EQ(client.status().gpu_uuid, "");
    EXPECT_FALSE(client.status().has_lease);
    EXPECT_THROW((void)client.window_begin("none"), Error);
    run_units(client, 2);
    EXPECT_EQ(client.status().units, 2U);
  }
}

TEST_F(ClientTest, AChildLeavesTheParentsLeaseAlone) {
  TestAgent agent(options_.agent_socket);
  const std::string socket = options_.agent_socket.string();
  lowgear_options options = LOWGEAR_OPTIONS_INIT;
  options.agent_socket = socket.c_str();
  lowgear_client* client = nullptr;
  ASSERT_EQ(lowgear_open(&options, &client), LOWGEAR_OK) << lowgear_last_error();
  const pid_t child = fork();
  if (child == 0) {
    const bool apart =
        lowgear_unit_begin(client, LOWGEAR_FORWARD, 0, 0) == LOWGEAR_FORKED && lowgear_close(client) == LOWGEAR_FORKED;
    _exit(apart ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  lowgear_status now{};
  now.struct_size = sizeof now;
  EXPECT_EQ(lowgear_get_status(client, &now), LOWGEAR_OK);
  EXPECT_EQ(now.has_lease, 1);
  EXPECT_EQ(agent.released(), 0);
  EXPECT_EQ(lowgear_close(client), LOWGEAR_OK);
}

TEST_F(ClientTest, ServesProgramsThatKnowLess) {
  lowgear_options options = LOWGEAR_OPTIONS_INIT;
  options.agent_socket = "";
  options.struct_size = offsetof(lowgear_options, gpu);
  options.gpu = "garbage that an older program does not set";
  lowgear_client* client = nullptr;
  ASSERT_EQ(lowgear_open(&options, &client), LOWGEAR_OK) << lowgear_last_error();
  lowgear_status status{};
  status.struct_size = offsetof(lowgear_status, has_lease);
  status.has_lease = 77;
  EXPECT_EQ(lowgear_get_status(client, &status), LOWGEAR_OK);
  EXPECT_EQ(status.has_lease, 77) << "beyond what the program knows";
  status.struct_size = offsetof(lowgear_status, pp_rank);  // 1.1
  status.stage = 78;
  EXPECT_EQ(lowgear_get_status(client, &status), LOWGEAR_OK);
  EXPECT_EQ(status.stage, 78) << "beyond what the program knows";
  status.struct_size = 0;
  EXPECT_EQ(lowgear_get_status(client, &status), LOWGEAR_INVALID);
  EXPECT_EQ(lowgear_unit_begin(client, LOWGEAR_RECOMPUTING_BACKWARD + 1, 0, 0), LOWGEAR_INVALID);
  EXPECT_EQ(lowgear_iteration_begin_at(client, 1'000'000'001), LOWGEAR_INVALID);
  const lowgear_unit next{.kind = LOWGEAR_FORWARD, .stage = 0, .microbatch = LOWGEAR_NEXT};
  EXPECT_EQ(lowgear_expect(client, &next, 1, 0), LOWGEAR_INVALID);
  EXPECT_EQ(lowgear_expect(client, nullptr, 1, 0), LOWGEAR_INVALID);
  EXPECT_EQ(lowgear_expect(client, nullptr, 0, 2), LOWGEAR_INVALID);
  EXPECT_EQ(lowgear_expect(client, nullptr, 0, 0), LOWGEAR_OK);
  EXPECT_EQ(lowgear_unit_begin(client, 0, 65536, 0), LOWGEAR_INVALID);
  EXPECT_EQ(lowgear_load_plan(client, nullptr, -1, 0), LOWGEAR_INVALID);
  EXPECT_EQ(lowgear_load_plan(client, "x", -1, 8), LOWGEAR_INVALID);
  EXPECT_EQ(lowgear_window_end(client, 99, nullptr), LOWGEAR_INVALID);
  lowgear_close(client);
  EXPECT_EQ(lowgear_open(&options, nullptr), LOWGEAR_INVALID);
  EXPECT_EQ(lowgear_close(nullptr), LOWGEAR_OK);
  EXPECT_EQ(lowgear_unit_begin(nullptr, 0, 0, 0), LOWGEAR_OK);
}

}  // namespace
}  // namespace lowgear::client
