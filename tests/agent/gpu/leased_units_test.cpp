#include "agent/gpu/leased_units.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "agent/fake_policy.h"
#include "base/core/eventually.h"

namespace lowgear::agent {
namespace {

using namespace std::chrono_literals;

class LeasedUnitsTest : public ::testing::Test {
 protected:
  void SetUp() override { units_.begin(ring_); }
  void begin_iteration(std::uint32_t iteration) {
    write_unit(ring_->ring(), {.time_ns = 1, .type = ipc::UnitEventType::iteration_begin, .microbatch = iteration});
  }
  void begin_unit(OpKind kind) {
    write_unit(ring_->ring(),
               {.time_ns = 1, .type = ipc::UnitEventType::unit_begin, .kind = static_cast<std::uint8_t>(kind)});
  }
  /// Clocks for forwards, and 1500 MHz for everything else.
  static std::unique_ptr<UnitClocks> clocks(int forward_mhz) { return std::make_unique<FakeUnitClocks>(forward_mhz); }
  [[nodiscard]] ipc::RingState state() { return static_cast<ipc::RingState>(ring_->ring().state.load()); }

  std::shared_ptr<SharedUnitRing> ring_ = std::make_shared<SharedUnitRing>();
  LeasedUnits units_;
};

TEST_F(LeasedUnitsTest, WantTheClockOfTheNewestUnitAndCountTheOthersAsLate) {
  EXPECT_EQ(state(), ipc::RingState::active);
  units_.follow(clocks(1005));
  begin_unit(OpKind::backward);
  begin_unit(OpKind::forward);
  EXPECT_TRUE(units_.look().any);
  EXPECT_EQ(units_.wanted_clock_mhz(), 1005);
  EXPECT_EQ(units_.counts().begun, 2);
  EXPECT_EQ(units_.counts().late, 1);
  EXPECT_FALSE(units_.look().any);
  EXPECT_FALSE(units_.wanted_clock_mhz()) << "nothing newer was marked";
}

TEST_F(LeasedUnitsTest, WantNoClockWithoutAPlan) {
  begin_unit(OpKind::forward);
  units_.look();
  EXPECT_FALSE(units_.wanted_clock_mhz());
  EXPECT_FALSE(units_.has_clocks());
}

TEST_F(LeasedUnitsTest, ChangeClocksWithTheirIteration) {
  units_.follow(clocks(1005));
  EXPECT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(units_.follow_from(2, clocks(900))));
  begin_iteration(1);
  begin_unit(OpKind::forward);
  units_.look();
  EXPECT_EQ(units_.wanted_clock_mhz(), 1005);
  begin_iteration(2);
  begin_unit(OpKind::forward);
  units_.look();
  EXPECT_EQ(units_.wanted_clock_mhz(), 900);
  const ipc::PlanAnswer late = units_.follow_from(2, clocks(800));
  ASSERT_TRUE(std::holds_alternative<ipc::TooLateMessage>(late));
  EXPECT_EQ(std::get<ipc::TooLateMessage>(late).begun_iteration, 2U);
}

TEST_F(LeasedUnitsTest, WantAClockAheadOfItsUnit) {
  units_.follow(std::make_unique<FakeUnitClocks>(1005, 1500, 1));
  const auto run = [this](OpKind kind) {
    begin_unit(kind);
    units_.look();
    const std::optional<int> begun_mhz = units_.begun_clock_mhz();
    std::this_thread::sleep_for(2ms);
    return begun_mhz;
  };
  for (std::uint32_t iteration = 0; iteration < 3; ++iteration) {
    begin_iteration(iteration);
    EXPECT_EQ(run(OpKind::forward), 1005);
    EXPECT_EQ(run(OpKind::backward), 1500);
  }
  begin_iteration(3);
  EXPECT_EQ(run(OpKind::forward), 1005);
  // The backward is overdue: what is left of the time until it begins is less than the lead.
  ASSERT_TRUE(eventually([this] {
    EXPECT_FALSE(units_.look().any);
    return units_.wanted_clock_mhz() == 1500;
  }));
  EXPECT_FALSE(units_.begun_clock_mhz()) << "it has not begun";
  EXPECT_EQ(run(OpKind::backward), 1500);
}

TEST_F(LeasedUnitsTest, WantAheadTheClocksOfThePlanThatTheNextIterationHas) {
  units_.follow(std::make_unique<FakeUnitClocks>(1005, 1500, 1'000'000'000));
  for (std::uint32_t iteration = 0; iteration < 3; ++iteration) {
    begin_iteration(iteration);
    units_.look();
    std::this_thread::sleep_for(2ms);
    begin_unit(OpKind::forward);
    units_.look();
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_TRUE(std::holds_alternative<ipc::AcceptedMessage>(units_.follow_from(3, clocks(900))));
  ASSERT_TRUE(eventually([this] {
    units_.look();
    return units_.wanted_clock_mhz().has_value();
  }));
  EXPECT_EQ(units_.wanted_clock_mhz(), 900);
}

TEST_F(LeasedUnitsTest, AreSuspendedUntilSomethingIsMarked) {
  units_.follow(clocks(1005));
  begin_unit(OpKind::forward);
  units_.look();
  units_.suspend();
  EXPECT_EQ(state(), ipc::RingState::suspended);
  EXPECT_FALSE(units_.wanted_clock_mhz());
  EXPECT_FALSE(units_.look().any);
  EXPECT_TRUE(units_.suspended());
  begin_unit(OpKind::forward);
  units_.look();
  EXPECT_FALSE(units_.suspended());
  EXPECT_EQ(state(), ipc::RingState::active);
  EXPECT_EQ(units_.wanted_clock_mhz(), 1005);
}

TEST_F(LeasedUnitsTest, KeepTheirCountsAfterTheLeaseAndBeginAnew) {
  begin_unit(OpKind::forward);
  begin_unit(OpKind::forward);
  units_.look();
  ring_->ring().requested_clock_mhz = 1005;
  units_.end();
  EXPECT_FALSE(units_.active());
  EXPECT_EQ(state(), ipc::RingState::ended);
  EXPECT_EQ(ring_->ring().requested_clock_mhz.load(), 0U);
  EXPECT_EQ(units_.counts().begun, 2);
  units_.end();
  units_.begin(std::make_shared<SharedUnitRing>());
  EXPECT_EQ(units_.counts().begun, 0);
  EXPECT_EQ(units_.counts().late, 1) << "of all leases";
}

}  // namespace
}  // namespace lowgear::agent
