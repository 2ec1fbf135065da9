#include "agent/gpu/gpu_worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "agent/fake_policy.h"
#include "base/core/eventually.h"
#include "base/core/op_kind.h"
#include "hardware/gpu/fake_gpu.h"

namespace lowgear::agent {
namespace {

using namespace std::chrono_literals;

class GpuWorkerTest : public ::testing::Test {
 protected:
  void start(GpuWorkerOptions options = {}) {
    worker_ = std::make_unique<GpuWorker>(std::make_shared<gpu::FakeGpuSystem>(1), std::make_unique<FakeWriter>(log_),
                                          options);
  }
  void begin_lease_with_plan() {
    worker_->begin_lease(ring_).get();
    ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1005, std::nullopt)));
  }
  /// Hands over a plan of a clock for forwards and 1500 MHz for everything else.
  ipc::PlanAnswer follow(int forward_mhz, std::optional<std::uint32_t> from_iteration) {
    std::promise<ipc::PlanAnswer> answer;
    worker_->follow_plan([forward_mhz] { return std::make_unique<FakeUnitClocks>(forward_mhz); }, from_iteration,
                         [&answer](ipc::PlanAnswer said) { answer.set_value(std::move(said)); });
    return answer.get_future().get();
  }
  void begin_iteration(std::uint32_t iteration) {
    write_unit(ring_->ring(), {.time_ns = 1, .type = ipc::UnitEventType::iteration_begin, .microbatch = iteration});
  }
  /// Runs a forward, and waits for its clock.
  void expect_forward_at(int clock_mhz) {
    begin_unit(OpKind::forward);
    ASSERT_TRUE(log_->wait_for_last("follow " + std::to_string(clock_mhz))) << clock_mhz;
    begin_unit(OpKind::backward);
    ASSERT_TRUE(log_->wait_for_last("follow 1500"));
  }
  void begin_unit(OpKind kind) {
    write_unit(ring_->ring(),
               {.time_ns = 1, .type = ipc::UnitEventType::unit_begin, .kind = static_cast<std::uint8_t>(kind)});
  }
  [[nodiscard]] ipc::RingState ring_state() const { return static_cast<ipc::RingState>(ring_->ring().state.load()); }

  std::shared_ptr<WriterLog> log_ = std::make_shared<WriterLog>();
  std::shared_ptr<SharedUnitRing> ring_ = std::make_shared<SharedUnitRing>();
  std::unique_ptr<GpuWorker> worker_;
};

TEST_F(GpuWorkerTest, AppliesTheClockOfEachUnitAndTellsTheClient) {
  start();
  begin_lease_with_plan();
  EXPECT_EQ(ring_state(), ipc::RingState::active);
  begin_unit(OpKind::forward);
  ASSERT_TRUE(log_->wait_for_last("follow 1005"));
  begin_unit(OpKind::backward);
  ASSERT_TRUE(log_->wait_for_last("follow 1500"));
  ASSERT_TRUE(eventually([this] { return ring_->ring().requested_clock_mhz.load() == 1500; }));
  ASSERT_TRUE(eventually([this] { return ring_->ring().applied_time_ns.load() > 0; }));
  ASSERT_TRUE(eventually([this] { return worker_->status().units.begun == 2; }));
  EXPECT_TRUE(worker_->status().has_plan);
}

TEST_F(GpuWorkerTest, AsksForClocksAheadAndTellsTheClientThatOfTheUnitThatRuns) {
  start();
  worker_->begin_lease(ring_).get();
  worker_->follow_plan([] { return std::make_unique<FakeUnitClocks>(1005, 1500, 1); }, std::nullopt,
                       [](const ipc::PlanAnswer&) {});
  const auto begin = [this](OpKind kind) {
    const std::uint64_t begun = worker_->status().units.begun;
    begin_unit(kind);
    EXPECT_TRUE(eventually([&] { return worker_->status().units.begun > begun; }));
    std::this_thread::sleep_for(5ms);
  };
  for (std::uint32_t iteration = 0; iteration < 3; ++iteration) {
    begin_iteration(iteration);
    begin(OpKind::forward);
    begin(OpKind::backward);
  }
  begin_iteration(3);
  begin_unit(OpKind::forward);
  ASSERT_TRUE(eventually([this] { return ring_->ring().requested_clock_mhz.load() == 1005; }));
  ASSERT_TRUE(log_->wait_for_last("follow 1500")) << "no backward has begun";
  EXPECT_EQ(ring_->ring().requested_clock_mhz.load(), 1005U) << "the clock of the forward, which runs";
  begin_unit(OpKind::backward);
  ASSERT_TRUE(eventually([this] { return ring_->ring().requested_clock_mhz.load() == 1500; }));
}

TEST_F(GpuWorkerTest, WithoutAPlanOnlyCounts) {
  start();
  worker_->begin_lease(ring_).get();
  begin_unit(OpKind::forward);
  ASSERT_TRUE(eventually([this] { return worker_->status().units.begun == 1; }));
  EXPECT_TRUE(log_->calls().empty());
}

/// A plan that names forwards alone.
class ForwardClocks final : public UnitClocks {
 public:
  [[nodiscard]] std::optional<int> clock_mhz(const ipc::UnitEvent& event,
                                             std::optional<std::uint32_t> /*iteration*/) const override {
    if (event.type != ipc::UnitEventType::unit_begin || event.kind != 0) return std::nullopt;
    return 1005;
  }
};

TEST_F(GpuWorkerTest, CountsUnitsThatThePlanDoesNotNameAndTellsTheClient) {
  start();
  worker_->begin_lease(ring_).get();
  begin_unit(OpKind::backward);
  ASSERT_TRUE(eventually([this] { return worker_->status().units.begun == 1; }));
  EXPECT_EQ(worker_->status().units.unplanned, 0U) << "there is no plan";
  std::promise<void> accepted;
  worker_->follow_plan([] { return std::make_unique<ForwardClocks>(); }, std::nullopt,
                       [&accepted](const ipc::PlanAnswer&) { accepted.set_value(); });
  accepted.get_future().get();
  begin_iteration(1);
  begin_unit(OpKind::backward);
  begin_unit(OpKind::forward);
  begin_unit(OpKind::backward);
  ASSERT_TRUE(eventually([this] { return worker_->status().units.unplanned == 2; }));
  EXPECT_EQ(ring_->ring().unplanned_units.load(), 2U);
  EXPECT_EQ(ipc::unpack_unit(0, ring_->ring().unplanned_unit.load()).kind, static_cast<std::uint8_t>(OpKind::backward));
  ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1200, 2)));
  begin_iteration(2);
  begin_unit(OpKind::backward);
  ASSERT_TRUE(log_->wait_for("follow 1500"));
  EXPECT_EQ(ring_->ring().unplanned_units.load(), 0U) << "this plan names all";
}

TEST_F(GpuWorkerTest, TellsTheClientWhileTheDriverRefusesItsClocks) {
  start();
  begin_lease_with_plan();
  log_->failing_follows = 1;
  begin_unit(OpKind::forward);
  ASSERT_TRUE(eventually([this] { return ring_->ring().clocks_not_held.load() == 1; }));
  EXPECT_EQ(ring_->ring().requested_clock_mhz.load(), 0U);
  begin_unit(OpKind::backward);
  ASSERT_TRUE(log_->wait_for_last("follow 1500"));
  ASSERT_TRUE(eventually([this] { return ring_->ring().clocks_not_held.load() == 0; }));
}

TEST_F(GpuWorkerTest, CountsOvertakenUnitsAndAppliesTheNewest) {
  start();
  begin_lease_with_plan();
  log_->hang();
  begin_unit(OpKind::forward);
  // Wait until the thread is within the driver; the units that come meanwhile are overtaken, but for the last.
  ASSERT_TRUE(eventually([this] { return log_->held(); }));
  for (int i = 0; i < 4; ++i) begin_unit(OpKind::forward);
  begin_unit(OpKind::backward);
  log_->let_go();
  ASSERT_TRUE(log_->wait_for_last("follow 1500"));
  ASSERT_TRUE(eventually([this] { return worker_->status().units.begun == 6; }));
  EXPECT_EQ(worker_->status().units.late, 4U);
  EXPECT_EQ(log_->calls(), (std::vector<std::string>{"follow 1005", "follow 1500"}));
}

TEST_F(GpuWorkerTest, RestoresWhenTheLeaseEnds) {
  start();
  begin_lease_with_plan();
  begin_unit(OpKind::forward);
  ASSERT_TRUE(log_->wait_for("follow 1005"));
  worker_->end_lease().get();
  EXPECT_EQ(log_->calls().back(), "restore");
  EXPECT_EQ(ring_state(), ipc::RingState::ended);
  EXPECT_EQ(ring_->ring().requested_clock_mhz.load(), 0U);
  EXPECT_FALSE(worker_->status().has_plan);
}

TEST_F(GpuWorkerTest, SuspendsALeaseWithoutUnitsAndResumes) {
  start({.suspend_after = 5ms});
  begin_lease_with_plan();
  begin_unit(OpKind::forward);
  ASSERT_TRUE(log_->wait_for_last("suspend"));
  ASSERT_TRUE(eventually([this] { return ring_state() == ipc::RingState::suspended; }));
  ASSERT_TRUE(eventually([this] { return ring_->ring().requested_clock_mhz.load() == 0; }));
  ASSERT_TRUE(eventually([this] { return worker_->status().suspended; }));
  begin_unit(OpKind::backward);
  ASSERT_TRUE(log_->wait_for("follow 1500"));
}

TEST_F(GpuWorkerTest, TriesAgainToSuspendAndNamesTheClockUntilThen) {
  log_->failing_suspends = 1'000'000;
  start({.suspend_after = 5ms, .retry_after = 1ms});
  begin_lease_with_plan();
  begin_unit(OpKind::forward);
  ASSERT_TRUE(log_->wait_for("follow 1005"));
  ASSERT_TRUE(log_->wait_for_last("suspend failed"));
  worker_->post([](GpuWriter&) {}).get();
  EXPECT_EQ(ring_->ring().requested_clock_mhz.load(), 1005U) << "the GPU is still locked";
  log_->failing_suspends = 0;
  ASSERT_TRUE(log_->wait_for_last("suspend"));
  ASSERT_TRUE(eventually([this] { return ring_->ring().requested_clock_mhz.load() == 0; }));
}

TEST_F(GpuWorkerTest, ASuspensionLeavesAloneWhatWasAskedForByName) {
  start({.suspend_after = 5ms});
  begin_lease_with_plan();
  worker_->post([](GpuWriter& writer) { writer.apply(gpu::SetPowerLimit{400}); }).get();
  begin_unit(OpKind::forward);
  ASSERT_TRUE(log_->wait_for_last("suspend"));
  begin_unit(OpKind::backward);
  ASSERT_TRUE(log_->wait_for("follow 1500"));
  const std::vector<std::string> calls = log_->calls();
  EXPECT_EQ(std::ranges::count(calls, "restore"), 0);
}

TEST_F(GpuWorkerTest, TriesAgainToRestore) {
  log_->failing_restores = 2;
  start({.retry_after = 1ms});
  worker_->end_lease().get();
  ASSERT_TRUE(log_->wait_for("restore"));
  EXPECT_EQ(log_->calls(), (std::vector<std::string>{"restore failed", "restore failed", "restore"}));
  ASSERT_TRUE(eventually([this] { return worker_->status().writer.clock_state == ClockState::restored; }));
}

TEST_F(GpuWorkerTest, RestoresNothingUnderALeaseOneOfWhoseWritesFailed) {
  start({.retry_after = 1ms});
  worker_->post([](GpuWriter& writer) { writer.apply(gpu::LockSmClocks{345, 1005}); }).get();
  EXPECT_THROW(worker_->post([](GpuWriter& writer) { writer.apply(gpu::SetPowerLimit{666}); }).get(), gpu::GpuError);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(log_->calls(), std::vector<std::string>{"lock SM clocks to 345-1005 MHz"});
  worker_->end_lease().get();
  EXPECT_EQ(log_->calls().back(), "restore");
}

TEST_F(GpuWorkerTest, HandsOnWhatATaskThrows) {
  start();
  EXPECT_THROW(worker_->post([](GpuWriter& writer) { writer.apply(gpu::SetPowerLimit{666}); }).get(), gpu::GpuError);
  worker_->post([](GpuWriter& writer) { writer.apply(gpu::LockSmClocks{345, 1005}); }).get();
  EXPECT_EQ(log_->calls(), std::vector<std::string>{"lock SM clocks to 345-1005 MHz"});
}

TEST_F(GpuWorkerTest, TellsHowATaskEndedWhenTheStatusShowsIt) {
  start();
  std::promise<std::uint64_t> writes;
  worker_->apply(gpu::LockSmClocks{345, 1005}, [&](const std::exception_ptr& error) {
    EXPECT_FALSE(error);
    writes.set_value(worker_->status().writer.clock_writes);
  });
  EXPECT_EQ(writes.get_future().get(), 1U);
  std::promise<void> failed;
  worker_->apply(gpu::SetPowerLimit{666}, [&](const std::exception_ptr& error) { failed.set_exception(error); });
  EXPECT_THROW(failed.get_future().get(), gpu::GpuError);
}

TEST_F(GpuWorkerTest, RefusesAPlanThatCannotBeRead) {
  start();
  worker_->begin_lease(ring_).get();
  std::promise<ipc::PlanAnswer> answer;
  worker_->follow_plan([]() -> std::unique_ptr<UnitClocks> { throw InputError("no plan"); }, std::nullopt,
                       [&answer](ipc::PlanAnswer said) { answer.set_value(std::move(said)); });
  EXPECT_EQ(std::get<ipc::RefusedMessage>(answer.get_future().get()).reason, "no plan");
  EXPECT_FALSE(worker_->status().has_plan);
}

TEST_F(GpuWorkerTest, SwitchesPlansAtTheBeginOfTheirIteration) {
  start();
  begin_lease_with_plan();
  begin_iteration(4);
  expect_forward_at(1005);
  ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1200, 6)));
  expect_forward_at(1005);
  begin_iteration(5);
  expect_forward_at(1005);
  begin_iteration(6);
  expect_forward_at(1200);
}

TEST_F(GpuWorkerTest, SwitchesPlansAtALaterIterationWhenTheirsIsLost) {
  start();
  begin_lease_with_plan();
  ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1200, 6)));
  begin_iteration(9);
  expect_forward_at(1200);
}

TEST_F(GpuWorkerTest, CountsIterationsPastTheEndOfTheirNumbers) {
  start();
  begin_lease_with_plan();
  begin_iteration(UINT32_MAX - 1);
  expect_forward_at(1005);
  ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1200, 1)));
  begin_iteration(UINT32_MAX);
  expect_forward_at(1005);
  begin_iteration(0);
  expect_forward_at(1005);
  begin_iteration(1);
  expect_forward_at(1200);
  EXPECT_TRUE(std::holds_alternative<ipc::TooLateMessage>(follow(1300, UINT32_MAX)));
  expect_forward_at(1200);
}

/// Also when its begin is in the ring and unread.
TEST_F(GpuWorkerTest, IgnoresAPlanWhoseIterationHasBegunAndKeepsTheOneThatWaits) {
  start();
  begin_lease_with_plan();
  begin_iteration(7);
  const ipc::PlanAnswer answer = follow(1300, 7);
  ASSERT_TRUE(std::holds_alternative<ipc::TooLateMessage>(answer));
  EXPECT_EQ(std::get<ipc::TooLateMessage>(answer).begun_iteration, 7U);
  ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1200, 8)));
  EXPECT_TRUE(std::holds_alternative<ipc::TooLateMessage>(follow(1300, 3)));
  expect_forward_at(1005);
  begin_iteration(8);
  expect_forward_at(1200);
}

TEST_F(GpuWorkerTest, TakesANewerPlanInPlaceOfOneThatWaits) {
  start();
  begin_lease_with_plan();
  ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1200, 2)));
  ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1300, 3)));
  begin_iteration(2);
  expect_forward_at(1005);
  begin_iteration(3);
  expect_forward_at(1300);
  ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1200, 9)));
  ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1005, std::nullopt)));
  begin_iteration(9);
  expect_forward_at(1005);
}

TEST_F(GpuWorkerTest, ForgetsIterationsAndWaitingPlansWithTheirLease) {
  start();
  begin_lease_with_plan();
  begin_iteration(9);
  ASSERT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1300, 10)));
  worker_->end_lease().get();
  ring_ = std::make_shared<SharedUnitRing>();
  begin_lease_with_plan();
  EXPECT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(follow(1200, 1)));
  begin_iteration(10);
  expect_forward_at(1200);
}

TEST_F(GpuWorkerTest, TakesWhateverAHostileClientWrites) {
  start();
  begin_lease_with_plan();
  ipc::UnitRing& ring = ring_->ring();
  for (ipc::UnitRing::Slot& slot : ring.slots) {
    slot.time_ns = UINT64_MAX;
    slot.unit = UINT64_MAX;
  }
  for (const std::uint64_t written : {UINT64_MAX, std::uint64_t{5}, std::uint64_t{0}, UINT64_MAX / 2}) {
    ring.written = written;
    std::this_thread::sleep_for(1ms);
  }
  worker_->end_lease().get();
  EXPECT_EQ(log_->calls().back(), "restore");
}

TEST_F(GpuWorkerTest, AHungDriverHoldsNobodyElseUp) {
  start();
  log_->hang();
  const auto task = worker_->post([](GpuWriter& writer) { writer.apply(gpu::ResetSmClocks{}); });
  ASSERT_TRUE(eventually([this] { return worker_->status().busy > 1ms; }));
  EXPECT_EQ(task.wait_for(0s), std::future_status::timeout);
  worker_.reset();  // leaves the thread behind
  log_->let_go();
  EXPECT_TRUE(log_->wait_for("reset SM clocks"));
}

}  // namespace
}  // namespace lowgear::agent
