#include "agent/process/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <thread>

#include "agent/fake_policy.h"
#include "agent/test_trainer.h"
#include "base/core/error_of.h"
#include "base/core/eventually.h"
#include "base/ipc/unix_socket.h"
#include "hardware/gpu/fake_gpu.h"

namespace lowgear::agent {
namespace {

using namespace std::chrono_literals;

/// The processes of the system, as of one job.
class ProcessesOfJob final : public ProcessTable {
 public:
  std::optional<ProcessJob> of = ProcessJob();  // changed between requests

  [[nodiscard]] std::optional<std::uint64_t> start_ticks(pid_t pid) const override { return system_.start_ticks(pid); }
  [[nodiscard]] FileDescriptor open(pid_t pid) const override { return system_.open(pid); }
  [[nodiscard]] std::optional<ProcessJob> job(pid_t) const override { return of; }

 private:
  SystemProcessTable system_;
};

/// An agent of two fake GPUs, both controlled, whose io_context runs on a thread of its own.
class AgentTest : public ::testing::Test {
 protected:
  AgentTest() : gpus_(std::make_shared<gpu::FakeGpuSystem>(3)) {
    std::string name = ::testing::TempDir() + "lowgear_agent_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    options_.lease_server.socket = folder_ / "lease.sock";
    options_.driver_timeout = kPatience;
    policy_ = std::make_shared<FakePolicy>(std::vector{uuid(0), uuid(1)});
  }
  ~AgentTest() override {
    for (const auto& log : policy_->logs) log->let_go();
    if (thread_.joinable()) {
      on_agent([this](Agent& agent) {
        agent.stop();
        agent_.reset();
      });
      io_.stop();
      thread_.join();
    }
    std::filesystem::remove_all(folder_);
  }

  void start() {
    agent_ = std::make_unique<Agent>(io_, options_, environment());
    agent_->listen();
    thread_ = std::thread([this] {
      const auto work = boost::asio::make_work_guard(io_);
      io_.run();
    });
  }
  /// Runs something on the agent's thread and hands on what it returns or throws.
  template <typename Call>
  auto on_agent(Call call) -> decltype(call(std::declval<Agent&>())) {
    std::packaged_task<decltype(call(std::declval<Agent&>()))()> task([&] { return call(*agent_); });
    auto result = task.get_future();
    boost::asio::post(io_, [&task] { task(); });
    return result.get();
  }
  /// Asks for a write, waits until it is done, and throws what went wrong.
  void write(const std::function<void(Agent&, WriteDone)>& ask) {
    std::promise<void> written;
    on_agent([&](Agent& agent) {
      ask(agent, [&](const std::exception_ptr& error) { error ? written.set_exception(error) : written.set_value(); });
    });
    written.get_future().get();
  }
  void restore_all(const Peer& peer) {
    write([&](Agent& agent, WriteDone done) { agent.restore_all(peer, std::move(done)); });
  }
  [[nodiscard]] AgentEnvironment environment() {
    AgentEnvironment environment;
    environment.warn = [this](std::string_view text) { warnings_.emplace_back(text); };
    environment.gpus = gpus_;
    environment.policy = policy_;
    environment.unattended = unattended_;
    if (processes_) environment.processes = processes_;
    return environment;
  }
  /// How many warnings say so.
  [[nodiscard]] std::ptrdiff_t warnings(std::string_view words) {
    return on_agent([&](Agent&) {
      return std::ranges::count_if(warnings_, [&](const std::string& text) { return text.find(words) != text.npos; });
    });
  }
  [[nodiscard]] std::size_t leases() {
    return on_agent([](Agent& agent) { return agent.leases().size(); });
  }
  [[nodiscard]] bool no_lease_soon() {
    return eventually([this] { return leases() == 0; });
  }
  [[nodiscard]] static std::string uuid(int gpu) { return gpu::FakeGpu(gpu).identity().uuid; }
  [[nodiscard]] static Peer self() { return {.uid = ::getuid(), .gid = ::getgid(), .pid = ::getpid()}; }
  [[nodiscard]] WriterLog& log(std::size_t gpu) { return *policy_->logs.at(gpu); }
  [[nodiscard]] const std::filesystem::path& socket() const { return options_.lease_server.socket; }
  static void expect_refusal(const std::function<void()>& call, const std::string& reason) {
    EXPECT_THAT(error_of<Error>(call), testing::HasSubstr(reason));
  }

  static void expect_told(TestTrainer& trainer, const std::string& reason) {
    const std::optional<ipc::Frame> frame = trainer.receive();
    ASSERT_TRUE(frame);
    ASSERT_EQ(frame->type, ipc::FrameType::ended);
    EXPECT_NE(ipc::decode_ended(frame->payload).reason.find(reason), std::string::npos);
    EXPECT_FALSE(trainer.receive());
  }

  std::filesystem::path folder_;
  Options options_;
  std::shared_ptr<gpu::FakeGpuSystem> gpus_;
  std::shared_ptr<FakePolicy> policy_;
  std::shared_ptr<UnattendedGpus> unattended_;
  std::shared_ptr<const ProcessTable> processes_;
  std::vector<std::string> warnings_;  // of the agent's thread
  boost::asio::io_context io_;
  std::unique_ptr<Agent> agent_;
  std::thread thread_;
};

TEST_F(AgentTest, LeasesAGpuAndFollowsItsPlan) {
  start();
  TestTrainer trainer(socket());
  const ipc::LeaseMessage lease = trainer.take_lease(uuid(0), 3);
  EXPECT_EQ(lease.gpu_uuid, uuid(0));
  EXPECT_EQ(lease.min_clock_mhz, 345U);
  EXPECT_EQ(lease.max_clock_mhz, 1980U);
  trainer.hand_over(plan_message("plan"));
  trainer.begin_unit(OpKind::forward, 0);
  ASSERT_TRUE(log(0).wait_for("follow 1005"));
  const auto statuses = on_agent([](Agent& agent) { return agent.leases(); });
  ASSERT_EQ(statuses.size(), 1U);
  EXPECT_EQ(statuses[0].owner.pid, ::getpid());
  EXPECT_EQ(statuses[0].rank, std::optional(3U));
  EXPECT_TRUE(statuses[0].has_plan);
  trainer.release();
  ASSERT_TRUE(log(0).wait_for("restore"));
  EXPECT_TRUE(no_lease_soon());
}

TEST_F(AgentTest, AClosedConnectionEndsTheLease) {
  start();
  {
    TestTrainer trainer(socket());
    trainer.take_lease(uuid(0));
    EXPECT_EQ(leases(), 1U);
  }
  EXPECT_TRUE(no_lease_soon());
  EXPECT_TRUE(log(0).wait_for("restore"));
}

TEST_F(AgentTest, AKilledProcessLosesItsLeaseThoughItsChildHoldsTheConnection) {
  start();
  int held[2] = {-1, -1};
  ASSERT_EQ(::pipe(held), 0);
  const pid_t trainer = ::fork();
  if (trainer == 0) {
    ::alarm(60);
    TestTrainer connection(socket());
    connection.take_lease(uuid(1));
    if (::fork() == 0) {
      ::alarm(60);
      char byte = 0;
      ::close(held[1]);
      (void)!::read(held[0], &byte, 1);  // until the test ends
      ::_exit(0);
    }
    (void)!::write(held[1], "r", 1);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(trainer, nullptr, 0);
  EXPECT_TRUE(log(1).wait_for("restore"));
  EXPECT_TRUE(no_lease_soon());
  ::close(held[1]);
  ::close(held[0]);
}

TEST_F(AgentTest, OneWriterAGpu) {
  start();
  TestTrainer first(socket());
  first.take_lease(uuid(0));
  TestTrainer second(socket());
  second.send(encode(ipc::HelloMessage{.gpu = uuid(0), .job = {}}));
  const ipc::RefusedMessage held = ipc::decode_refused(second.receive().value().payload);
  EXPECT_NE(held.reason.find(" (rank 0 of job test) holds this GPU"), std::string::npos) << held.reason;
  EXPECT_FALSE(held.lasts);
  TestTrainer third(socket());
  EXPECT_EQ(third.take_lease(uuid(1)).gpu_uuid, uuid(1));
}

TEST_F(AgentTest, LeasesNoGpuWhoseInstancesOthersHave) {
  gpu::GpuIdentity identity = gpus_->fake(0).identity();
  identity.mig_enabled = true;
  gpus_->fake(0).set_identity(identity);
  start();
  TestTrainer trainer(socket());
  expect_refusal([&] { trainer.take_lease(uuid(0)); }, "MIG is on");
  expect_refusal(
      [&] {
        write([&](Agent& agent, WriteDone done) {
          agent.apply(self(), uuid(0), gpu::LockSmClocks{345, 1005}, std::move(done));
        });
      },
      "MIG is on");
  EXPECT_EQ(log(0).calls(), std::vector<std::string>{});
}

TEST_F(AgentTest, RefusesWhatIsNotConfigured) {
  start();
  TestTrainer first(socket());
  expect_refusal([&] { first.take_lease(uuid(2)); }, "does not name this GPU for control");
  TestTrainer second(socket());
  second.send(encode(ipc::HelloMessage{.gpu = "GPU-none", .job = {}}));
  const ipc::RefusedMessage unknown = ipc::decode_refused(second.receive().value().payload);
  EXPECT_NE(unknown.reason.find("GPU-none"), std::string::npos) << unknown.reason;
  EXPECT_TRUE(unknown.lasts);
}

TEST_F(AgentTest, RefusesAnotherUser) {
  policy_->only_user = ::getuid() + 1;
  start();
  TestTrainer trainer(socket());
  expect_refusal([&] { trainer.take_lease(uuid(0)); }, "may not use GPU");
  EXPECT_TRUE(log(0).calls().empty());
}

TEST_F(AgentTest, TellsWhoMayNotReadNothingOfItsGpus) {
  policy_->only_user = ::getuid() + 1;
  start();
  const auto refusal = [&](const std::string& gpu) -> std::string {
    TestTrainer trainer(socket());
    try {
      trainer.take_lease(gpu);
    } catch (const Error& error) {
      std::string reason = error.what();
      const std::size_t named = reason.find(gpu);
      return named == std::string::npos ? reason : reason.replace(named, gpu.size(), "X");
    }
    return "none";
  };
  const std::string none = refusal("GPU-none");
  EXPECT_NE(none.find("may not use GPU \"X\""), std::string::npos) << none;
  EXPECT_EQ(refusal(uuid(0)), none);
  EXPECT_EQ(refusal(gpus_->fake(0).identity().pci_address), none);
  EXPECT_EQ(refusal(uuid(2)), none) << "which is not controlled";
}

TEST_F(AgentTest, RefusesAPlanAndKeepsTheLease) {
  start();
  TestTrainer trainer(socket());
  trainer.take_lease(uuid(0));
  expect_refusal([&] { trainer.hand_over(plan_message("nonsense")); }, "this is not a plan");
  trainer.hand_over(plan_message("plan"));
}

TEST_F(AgentTest, ClosesOnFramesThatHaveNoPlace) {
  start();
  TestTrainer plan_first(socket());
  plan_first.send(encode(plan_message("plan")));
  EXPECT_EQ(plan_first.receive().value().type, ipc::FrameType::refused);
  EXPECT_FALSE(plan_first.receive());
  TestTrainer garbage(socket());
  garbage.send(std::vector<std::byte>(100, std::byte{0x41}));
  EXPECT_EQ(garbage.receive().value().type, ipc::FrameType::refused);
  EXPECT_FALSE(garbage.receive());
  for (const std::uint32_t version : {ipc::kOldestLeaseProtocolVersion - 1, ipc::kLeaseProtocolVersion + 1}) {
    TestTrainer other(socket());
    other.send(encode(ipc::HelloMessage{.version = version, .gpu = uuid(0), .rank = 0, .job = {}}));
    EXPECT_EQ(other.receive().value().type, ipc::FrameType::refused) << version;
  }
}

TEST_F(AgentTest, ClosesASilentClient) {
  options_.lease_server.hello_timeout = 20ms;
  start();
  TestTrainer silent(socket());
  EXPECT_EQ(silent.receive().value().type, ipc::FrameType::refused);
  EXPECT_FALSE(silent.receive());
}

TEST_F(AgentTest, ClosesAClientThatStopsWithinAFrame) {
  options_.lease_server.frame_timeout = 20ms;
  start();
  TestTrainer trainer(socket());
  trainer.take_lease(uuid(0));
  auto plan = encode(plan_message("plan"));
  plan.resize(plan.size() - 1);
  trainer.send(plan);
  EXPECT_EQ(trainer.receive().value().type, ipc::FrameType::refused);
  EXPECT_TRUE(log(0).wait_for("restore"));
}

TEST_F(AgentTest, MakesRoomForTheNextClient) {
  options_.lease_server.max_connections = 2;
  start();
  TestTrainer leased(socket());
  leased.take_lease(uuid(0));
  TestTrainer idle(socket());
  TestTrainer next(socket());
  EXPECT_EQ(next.take_lease(uuid(1)).gpu_uuid, uuid(1));
  EXPECT_EQ(idle.receive().value().type, ipc::FrameType::refused);
  TestTrainer one_too_many(socket());
  const ipc::RefusedMessage refused = ipc::decode_refused(one_too_many.receive().value().payload);
  EXPECT_NE(refused.reason.find("has 2 clients"), std::string::npos) << refused.reason;
  EXPECT_FALSE(refused.lasts);
}

TEST_F(AgentTest, ServesManyClients) {
  start();
  std::vector<std::unique_ptr<TestTrainer>> idle;
  for (int i = 0; i < 64; ++i) idle.push_back(std::make_unique<TestTrainer>(socket()));
  TestTrainer trainer(socket());
  trainer.take_lease(uuid(0));
  EXPECT_EQ(leases(), 1U);
}

TEST_F(AgentTest, SurvivesTheLackOfDescriptors) {
  start();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  TestTrainer leased(socket());
  leased.take_lease(uuid(0));
  const FileDescriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileDescriptor probe(::dup(0));
  const rlimit none{.rlim_cur = static_cast<rlim_t>(probe.get()), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const ipc::UnixAddress address = ipc::UnixAddress::of_path(socket());
  EXPECT_EQ(::connect(client.get(), address.get(), address.size()), 0);
  std::byte byte{};
  EXPECT_EQ(::recv(client.get(), &byte, 1, 0), 1);  // it is told, and not left waiting
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  TestTrainer next(socket());
  EXPECT_EQ(next.take_lease(uuid(1)).gpu_uuid, uuid(1));
}

TEST_F(AgentTest, RequestsTakeALeaseThatTheirProcessHolds) {
  start();
  write([](Agent& agent, WriteDone done) {
    agent.apply(self(), uuid(0), gpu::LockSmClocks{345, 1005}, std::move(done));
  });
  write([](Agent& agent, WriteDone done) {
    agent.apply(self(), uuid(0), gpu::LockSmClocks{345, 1500}, std::move(done));
  });
  EXPECT_EQ(log(0).calls(),
            (std::vector<std::string>{"lock SM clocks to 345-1005 MHz", "lock SM clocks to 345-1500 MHz"}));
  EXPECT_EQ(leases(), 1U);
  TestTrainer trainer(socket());
  expect_refusal([&] { trainer.take_lease(uuid(0)); }, "holds this GPU");
  const auto id = on_agent([](Agent& agent) { return agent.leases().at(0).id; });
  on_agent([id](Agent& agent) { agent.release(self(), id); });
  EXPECT_TRUE(log(0).wait_for("restore"));
}

TEST_F(AgentTest, ARequestersEndEndsItsLease) {
  start();
  const pid_t process = ::fork();
  if (process == 0) {
    ::alarm(60);
    while (true) ::pause();
  }
  const Peer peer{.uid = ::getuid(), .gid = ::getgid(), .pid = process};
  write([&](Agent& agent, WriteDone done) {
    agent.apply(peer, uuid(0), gpu::LockSmClocks{345, 1005}, std::move(done));
  });
  EXPECT_EQ(leases(), 1U);
  ::kill(process, SIGKILL);
  EXPECT_TRUE(log(0).wait_for("restore"));
  EXPECT_TRUE(no_lease_soon());
  ::waitpid(process, nullptr, 0);
}

/// A process that waits until it is killed.
class IdleProcess {
 public:
  IdleProcess() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::alarm(60);
    while (true) ::pause();
  }
  ~IdleProcess() { kill(); }
  IdleProcess(const IdleProcess&) = delete;
  IdleProcess& operator=(const IdleProcess&) = delete;

  [[nodiscard]] Peer peer() const { return {.uid = ::getuid(), .gid = ::getgid(), .pid = pid_}; }
  void kill() {
    if (ended_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ended_ = true;
  }

 private:
  pid_t pid_;
  bool ended_ = false;
};

TEST_F(AgentTest, ProcessesOfOneUserShareALeaseUntilTheLastHasEnded) {
  start();
  IdleProcess first;
  IdleProcess second;
  IdleProcess third;
  const auto lease = [&] { return on_agent([](Agent& agent) { return agent.leases().at(0); }); };
  write([&](Agent& agent, WriteDone done) {
    agent.apply(first.peer(), uuid(0), gpu::SetPowerLimit{400}, std::move(done));
  });
  for (int i = 0; i < 2; ++i) {
    write([&](Agent& agent, WriteDone done) {
      agent.apply(second.peer(), uuid(0), gpu::LockSmClocks{345, 1005}, std::move(done));
    });
  }
  write(
      [&](Agent& agent, WriteDone done) { agent.apply(third.peer(), uuid(0), gpu::ResetSmClocks{}, std::move(done)); });
  EXPECT_EQ(leases(), 1U);
  EXPECT_EQ(lease().rank, std::nullopt);
  EXPECT_EQ(lease().other_pids, (std::vector{second.peer().pid, third.peer().pid}));
  const auto id = lease().id;

  first.kill();
  EXPECT_TRUE(eventually([&] { return lease().owner.pid == second.peer().pid; }));
  EXPECT_EQ(lease().id, id);
  third.kill();
  EXPECT_TRUE(eventually([&] { return lease().other_pids.empty(); }));
  const std::vector<std::string> calls = log(0).calls();
  EXPECT_EQ(std::ranges::count(calls, "restore"), 0) << "one that set something still runs";
  second.kill();
  EXPECT_TRUE(log(0).wait_for("restore"));
  EXPECT_TRUE(no_lease_soon());
}

TEST_F(AgentTest, ALeaseOfAnotherUserOrWithAConnectionIsNotShared) {
  start();
  IdleProcess other;
  TestTrainer trainer(socket());
  trainer.take_lease(uuid(0));
  expect_refusal(
      [&] {
        write([&](Agent& agent, WriteDone done) {
          agent.apply(other.peer(), uuid(0), gpu::LockSmClocks{345, 1005}, std::move(done));
        });
      },
      "holds this GPU");
  write([](Agent& agent, WriteDone done) {
    agent.apply(self(), uuid(1), gpu::LockSmClocks{345, 1005}, std::move(done));
  });
  const Peer stranger{.uid = ::getuid() + 1, .gid = ::getgid(), .pid = other.peer().pid};
  expect_refusal(
      [&] {
        write([&](Agent& agent, WriteDone done) {
          agent.apply(stranger, uuid(1), gpu::LockSmClocks{345, 1005}, std::move(done));
        });
      },
      "holds this GPU");
}

TEST_F(AgentTest, AnAssignedGpuIsLeasedByItsUserAlone) {
  start();
  const Peer root{.uid = 0, .gid = 0, .pid = ::getpid()};
  const Peer owner{.uid = 2001, .gid = 2001, .pid = ::getpid()};
  const Peer other{.uid = 2002, .gid = 2002, .pid = ::getpid()};
  const auto lock = [&](const Peer& peer, int gpu) {
    write([&](Agent& agent, WriteDone done) {
      agent.apply(peer, uuid(gpu), gpu::LockSmClocks{345, 1005}, std::move(done));
    });
  };
  EXPECT_THROW(on_agent([&](Agent& agent) { agent.assign(owner, uuid(0), {.uid = 2001, .job = "12"}); }), AccessDenied);
  on_agent([&](Agent& agent) { agent.assign(root, uuid(0), {.uid = 2001, .job = "12"}); });
  expect_refusal([&] { lock(other, 0); }, "assigned to job \"12\" of user 2001");
  EXPECT_EQ(log(0).calls(), std::vector<std::string>{});
  EXPECT_EQ(on_agent([](Agent& agent) { return agent.gpus().at(0).assignment->job; }), "12");
  lock(other, 1);
  lock(owner, 0);
  on_agent([](Agent& agent) { agent.release(agent.leases().at(1).owner, agent.leases().at(1).id); });
  EXPECT_THROW(on_agent([&](Agent& agent) { agent.give_back(owner, uuid(0), "12"); }), AccessDenied);
  EXPECT_THROW(on_agent([&](Agent& agent) { agent.give_back(root, uuid(0), "11"); }), NotFound);
  EXPECT_THROW(on_agent([&](Agent& agent) { agent.give_back(root, "GPU-none", "12"); }), NotFound);
  on_agent([&](Agent& agent) { agent.give_back(root, uuid(0), "12"); });
  EXPECT_NO_THROW(lock(other, 0));
}

/// GPU 0 is assigned, and processes of its user ask for it.
class AssignedGpuTest : public AgentTest {
 protected:
  void assign(const GpuAssignment& assignment) {
    processes_ = of_job_;
    start();
    on_agent([&](Agent& agent) { agent.assign({.uid = 0, .gid = 0, .pid = ::getpid()}, uuid(0), assignment); });
  }
  void lock_of(std::optional<ProcessJob> job) {
    of_job_->of = std::move(job);
    const Peer owner{.uid = 2001, .gid = 2001, .pid = ::getpid()};
    write([&](Agent& agent, WriteDone done) {
      agent.apply(owner, uuid(0), gpu::LockSmClocks{345, 1005}, std::move(done));
    });
    on_agent([&](Agent& agent) { agent.release(owner, agent.leases().at(0).id); });
  }
  static ProcessJob slurm(std::string id) {
    return {.kind = "Slurm job", .id = std::move(id), .cgroup = "/slurmstepd.scope/x"};
  }

  std::shared_ptr<ProcessesOfJob> of_job_ = std::make_shared<ProcessesOfJob>();
};

TEST_F(AssignedGpuTest, IsLeasedByNoOtherJobOfItsUser) {
  assign({.uid = 2001, .job = "12"});
  expect_refusal([&] { lock_of(slurm("13")); }, "assigned to job \"12\" of user 2001, and process");
  expect_refusal([&] { lock_of(slurm("13")); }, "is of Slurm job \"13\"");
  expect_refusal([&] { lock_of(ProcessJob{.kind = "pod", .id = "12ab", .cgroup = "/x"}); }, "is of pod \"12ab\"");
  expect_refusal([&] { lock_of(ProcessJob{.kind = "container", .id = "12ab", .cgroup = "/x"}); }, "is of container");
  EXPECT_EQ(log(0).calls(), std::vector<std::string>{});
  EXPECT_EQ(warnings("a lease was refused"), 0) << "all of it is known";
  lock_of(slurm("12"));
  lock_of(ProcessJob());  // as where Slurm has no cgroups, or the user came by ssh
}

TEST_F(AssignedGpuTest, IsLeasedByNoProcessWhoseJobIsNotKnown) {
  assign({.uid = 2001, .job = "12"});
  expect_refusal([&] { lock_of(slurm("s5K1KKYAYG5D00")); }, "CgroupJobIdPaths=yes");
  expect_refusal([&] { lock_of(slurm("")); }, "/slurmstepd.scope/x");
  expect_refusal([&] { lock_of(ProcessJob{.kind = "pod", .id = "", .cgroup = "/kubepods"}); }, "which pod");
  expect_refusal([&] { lock_of(std::nullopt); }, "does not see the calling process");
  EXPECT_EQ(log(0).calls(), std::vector<std::string>{});
  EXPECT_EQ(warnings("CgroupJobIdPaths=yes"), 1);
  EXPECT_EQ(warnings("a lease was refused"), 1) << "once";
}

TEST_F(AssignedGpuTest, IsLeasedByTheJobWhoseSluidWasGiven) {
  assign({.uid = 2001, .job = "12", .sluid = "s5K1KKYAYG5D00"});
  expect_refusal([&] { lock_of(slurm("s5K1KKYAYG5D01")); }, "is of Slurm job \"s5K1KKYAYG5D01\"");
  lock_of(slurm("s5K1KKYAYG5D00"));
  lock_of(slurm("12"));
}

TEST_F(AssignedGpuTest, IsNotKeptFromProcessesOfTheContainerThatTheAgentIsIn) {
  const ProcessJob container{.kind = "container", .id = "12ab", .cgroup = "/docker/12ab"};
  of_job_->of = container;
  assign({.uid = 2001, .job = "12"});
  lock_of(container);
  expect_refusal([&] { lock_of(ProcessJob{.kind = "container", .id = "34cd", .cgroup = "/docker/34cd"}); }, "34cd");
}

TEST_F(AgentTest, RefusesRequestsOutOfRangeAndFromAfar) {
  start();
  EXPECT_THROW(write([](Agent& agent, WriteDone done) {
                 agent.apply(self(), uuid(0), gpu::LockSmClocks{100, 1005}, std::move(done));
               }),
               InputError);
  EXPECT_THROW(write([](Agent& agent, WriteDone done) {
                 agent.apply(self(), uuid(0), gpu::LockSmClocks{1500, 1005}, std::move(done));
               }),
               InputError);
  EXPECT_THROW(write([](Agent& agent, WriteDone done) {
                 agent.apply(self(), uuid(0), gpu::SetPowerLimit{900}, std::move(done));
               }),
               InputError);
  EXPECT_THROW(
      write([](Agent& agent, WriteDone done) { agent.apply(self(), uuid(2), gpu::ResetSmClocks{}, std::move(done)); }),
      AccessDenied);
  EXPECT_THROW(write([](Agent& agent, WriteDone done) {
                 agent.apply(self(), "GPU-none", gpu::ResetSmClocks{}, std::move(done));
               }),
               NotFound);
  const Peer afar{.uid = ::getuid(), .gid = ::getgid(), .pid = 0};
  EXPECT_THROW(
      write([&](Agent& agent, WriteDone done) { agent.apply(afar, uuid(0), gpu::ResetSmClocks{}, std::move(done)); }),
      AccessDenied);
  EXPECT_THROW(on_agent([](Agent& agent) { agent.release(self(), 99); }), NotFound);
  EXPECT_EQ(leases(), 0U);
}

TEST_F(AgentTest, OnlyRootRestoresEverything) {
  start();
  TestTrainer trainer(socket());
  trainer.take_lease(uuid(0));
  EXPECT_THROW(restore_all({.uid = 1, .gid = 1, .pid = 1}), AccessDenied);
  EXPECT_EQ(leases(), 1U);
  restore_all({.uid = 0, .gid = 0, .pid = 1});
  EXPECT_EQ(leases(), 0U);
  expect_told(trainer, "restored every GPU");
  for (const std::size_t gpu : {0U, 1U}) EXPECT_TRUE(log(gpu).wait_for("restore"));
}

TEST_F(AgentTest, TellsAClientWhoseLeaseAPersonHasEnded) {
  start();
  TestTrainer trainer(socket());
  const std::uint64_t id = trainer.take_lease(uuid(0)).lease_id;
  on_agent([id](Agent& agent) { agent.release({.uid = 0, .gid = 0, .pid = 1}, id); });
  expect_told(trainer, "released by user root");
}

/// A client takes its lease again when the agent is back.
TEST_F(AgentTest, EndsWithoutAWordToItsClients) {
  start();
  TestTrainer trainer(socket());
  trainer.take_lease(uuid(0));
  on_agent([](Agent& agent) { agent.stop(); });
  EXPECT_FALSE(trainer.receive());
}

TEST_F(AgentTest, DoesNotSayThatAGpuIsRestoredThatNobodyCanReach) {
  auto journal = std::make_shared<Journal>(discarding_journal());
  journal->record_change({.uuid = "GPU-lost", .pci_address = "", .power_limit_w = {}, .persistence_mode = {}});
  const auto answers = std::make_shared<std::atomic<bool>>(false);
  UnattendedGpusOptions options;
  options.open = [answers]() -> std::unique_ptr<gpu::GpuControlSystem> {
    if (!*answers) throw gpu::GpuError(gpu::GpuErrorCode::gpu_lost, "it is lost");
    return std::make_unique<gpu::FakeGpuSystem>(1);
  };
  options.retry_after = 24h;
  unattended_ = std::make_shared<UnattendedGpus>(
      std::vector<UnattendedGpu>{{.name = "GPU-lost", .configured = false, .left_changed = true, .problem = "?"}},
      journal, options);
  start();
  const Peer root{.uid = 0, .gid = 0, .pid = 1};
  expect_refusal([&] { restore_all(root); }, "GPU-lost: was left changed, and is not restored: it is lost");
  EXPECT_TRUE(log(0).wait_for("restore")) << "the others are restored all the same";
  EXPECT_EQ(on_agent([](Agent& agent) { return agent.unattended_gpus().size(); }), 1U);
  *answers = true;
  EXPECT_NO_THROW(restore_all(root));
  EXPECT_TRUE(on_agent([](Agent& agent) { return agent.unattended_gpus().empty(); }));
}

TEST_F(AgentTest, ASlowDriverHoldsUpNoOtherButItsAsker) {
  options_.hung_after = 1h;
  start();
  log(0).hang();
  std::promise<bool> written;
  on_agent([&](Agent& agent) {
    agent.apply(self(), uuid(0), gpu::LockSmClocks{345, 1005},
                [&](const std::exception_ptr& error) { written.set_value(error == nullptr); });
  });
  std::future<bool> done = written.get_future();
  EXPECT_EQ(on_agent([](Agent& agent) { return agent.gpus().size(); }), 3U);
  write([](Agent& agent, WriteDone told) {
    agent.apply(self(), uuid(1), gpu::LockSmClocks{345, 1005}, std::move(told));
  });
  EXPECT_EQ(log(1).calls(), std::vector<std::string>{"lock SM clocks to 345-1005 MHz"});
  EXPECT_EQ(done.wait_for(0s), std::future_status::timeout);
  log(0).let_go();
  EXPECT_TRUE(done.get());
  EXPECT_EQ(log(0).calls(), std::vector<std::string>{"lock SM clocks to 345-1005 MHz"});
}

TEST_F(AgentTest, RestoresTheOthersOfAHungDriverAndHoldsUpNoOtherMeanwhile) {
  start();
  log(0).hang();
  std::promise<std::string> told;
  on_agent([&](Agent& agent) {
    agent.restore_all({.uid = 0, .gid = 0, .pid = 1}, [&](const std::exception_ptr& error) {
      try {
        if (error) std::rethrow_exception(error);
        told.set_value("restored");
      } catch (const gpu::GpuError& failure) {
        told.set_value(failure.what());
      }
    });
  });
  std::future<std::string> outcome = told.get_future();
  EXPECT_EQ(on_agent([](Agent& agent) { return agent.gpus().size(); }), 3U);
  EXPECT_TRUE(log(1).wait_for("restore"));
  EXPECT_EQ(outcome.wait_for(0s), std::future_status::timeout);
  log(0).let_go();
  EXPECT_EQ(outcome.get(), "restored");
}

TEST_F(AgentTest, IsLeftAloneByADriverThatAnswersOnceItIsGone) {
  options_.driver_timeout = 1ms;
  std::promise<void> reading;
  std::promise<void> answers;
  policy_->on_read_plan = [&reading, answered = answers.get_future().share()] {
    reading.set_value();
    answered.wait();
  };
  start();
  TestTrainer trainer(socket());
  trainer.take_lease(uuid(0));
  trainer.send(encode(plan_message("plan")));
  reading.get_future().wait();
  on_agent([this](Agent&) { agent_.reset(); });
  io_.stop();
  thread_.join();
  io_.restart();
  io_.poll();
  io_.restart();  // it has run out of work
  answers.set_value();
  ASSERT_TRUE(eventually([this] { return policy_->logs[0].use_count() == 1; })) << "the thread of the GPU ends";
  EXPECT_EQ(io_.poll(), 0U) << "the loop may have gone, too";
}

TEST_F(AgentTest, ContinuesToRestoreWhatTheKillSwitchDidNot) {
  options_.worker.retry_after = 1ms;
  start();
  log(0).failing_restores = 1;
  try {
    restore_all({.uid = 0, .gid = 0, .pid = 1});
  } catch (const gpu::GpuError& error) {
    EXPECT_NE(std::string(error.what()).find(uuid(0) + ": the driver refuses"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(log(0).wait_for_last("restore"));
}

TEST_F(AgentTest, NamesTheGpuThatTheKillSwitchDidNotRestoreInTime) {
  options_.driver_timeout = 20ms;
  start();
  log(0).hang();
  expect_refusal([this] { restore_all({.uid = 0, .gid = 0, .pid = 1}); }, uuid(0) + ": the driver does not respond");
  EXPECT_TRUE(log(1).wait_for("restore"));
  log(0).let_go();
}

TEST_F(AgentTest, ReportsAHungDriver) {
  options_.hung_after = 1ms;
  options_.driver_timeout = 2s;
  start();
  log(0).hang();
  EXPECT_THROW(write([](Agent& agent, WriteDone done) {
                 agent.apply(self(), uuid(0), gpu::LockSmClocks{345, 1005}, std::move(done));
               }),
               gpu::GpuError);
  const auto statuses = on_agent([](Agent& agent) { return agent.gpus(); });
  EXPECT_FALSE(statuses.at(0).healthy);
  EXPECT_TRUE(statuses.at(1).healthy);
  EXPECT_FALSE(statuses.at(2).controlled);
  write([](Agent& agent, WriteDone done) {
    agent.apply(self(), uuid(1), gpu::LockSmClocks{345, 1005}, std::move(done));
  });
  EXPECT_EQ(on_agent([](Agent& agent) { return agent.stop(); }).size(), 1U);
  log(0).let_go();
}

TEST_F(AgentTest, RefusesToStartForAGpuThatIsNotThere) {
  policy_ = std::make_shared<FakePolicy>(std::vector<std::string>{"GPU-none"});
  EXPECT_THROW(Agent(io_, options_, environment()), InputError);
}

TEST_F(AgentTest, ReadsWithoutControllingAnything) {
  policy_ = std::make_shared<FakePolicy>(std::vector<std::string>{});
  start();
  std::vector<GpuStatus> statuses;
  ASSERT_TRUE(eventually([&] {
    statuses = on_agent([](Agent& agent) { return agent.gpus(); });
    return statuses.at(2).reading.time_ns != 0;
  }));
  EXPECT_EQ(statuses.at(2).reading.sm_clock_mhz, 1980);
  EXPECT_FALSE(statuses.at(2).controlled);
}

}  // namespace
}  // namespace lowgear::agent
