#include "agent/gpu/leased_units.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "agent/fake_policy.h"
#include "base/core/eventually.h"
#include "base/core/op_kind.h"

namespace lowgear::agent {

namespace {

TEST(SharedUnitRing, IsTheSameMemoryForBothSides) {
  SharedUnitRing shared;
  void* memory = ::mmap(nullptr, sizeof(ipc::UnitRing), PROT_READ | PROT_WRITE, MAP_SHARED, shared.descriptor(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* client = static_cast<ipc::UnitRing*>(memory);
  EXPECT_EQ(client->magic, ipc::kUnitRingMagic);
  EXPECT_EQ(client->capacity, ipc::kUnitRingCapacity);
  client->written.store(7);
  EXPECT_EQ(shared.ring().written.load(), 7U);
  ::munmap(memory, sizeof(ipc::UnitRing));
}

TEST(SharedUnitRing, CanBeNeitherCutOffNorGrown) {
  const SharedUnitRing shared;
  EXPECT_NE(::ftruncate(shared.descriptor(), 1), 0);
  EXPECT_NE(::ftruncate(shared.descriptor(), 1 << 20), 0);
  struct stat found {};
  ASSERT_EQ(::fstat(shared.descriptor(), &found), 0);
  EXPECT_EQ(found.st_size, static_cast<off_t>(sizeof(ipc::UnitRing)));
}

TEST(SharedUnitRing, TakesNoFurtherSeals) {
  // A client that could forbid writing would end the agent's writes with a signal.
  const SharedUnitRing shared;
  EXPECT_NE(::fcntl(shared.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kStart = 1'000 * kMs;

ipc::UnitEvent unit(std::uint32_t microbatch) { return {.microbatch = microbatch}; }

/// An iteration of three units, 10, 20 and 30 ms apart.
void run_iteration(UnitForecast& forecast, std::int64_t start_ns) {
  forecast.iteration_began(start_ns);
  forecast.unit_began(start_ns + 10 * kMs, unit(0));
  forecast.unit_began(start_ns + 30 * kMs, unit(1));
  forecast.unit_began(start_ns + 60 * kMs, unit(2));
}

TEST(UnitForecast, LooksCoarselyWhereNothingIsKnown) {
  UnitForecast forecast;
  EXPECT_EQ(forecast.sleep_ns(kStart), UnitForecast::kCoarseNs);
  run_iteration(forecast, kStart);
  EXPECT_EQ(forecast.sleep_ns(kStart + 61 * kMs), UnitForecast::kCoarseNs);
}

TEST(UnitForecast, LooksFinelyWhereTheLastIterationHadAUnit) {
  UnitForecast forecast;
  run_iteration(forecast, kStart);
  const std::int64_t second = kStart + 100 * kMs;
  forecast.iteration_began(second);
  forecast.unit_began(second + 10 * kMs, unit(0));
  EXPECT_EQ(forecast.sleep_ns(second + 11 * kMs), UnitForecast::kCoarseNs);
  EXPECT_EQ(forecast.sleep_ns(second + 30 * kMs), UnitForecast::kFineNs);
  EXPECT_EQ(forecast.sleep_ns(second + 31 * kMs), UnitForecast::kFineNs);
  EXPECT_EQ(forecast.sleep_ns(second + 60 * kMs), UnitForecast::kCoarseNs);
}

TEST(UnitForecast, ExpectsTheNextIterationToo) {
  UnitForecast forecast;
  run_iteration(forecast, kStart);
  run_iteration(forecast, kStart + 100 * kMs);
  EXPECT_EQ(forecast.sleep_ns(kStart + 200 * kMs), UnitForecast::kFineNs);
}

TEST(UnitForecast, NeverSleepsPastTheWindow) {
  UnitForecast forecast;
  run_iteration(forecast, kStart);
  forecast.iteration_began(kStart + 100 * kMs);
  const std::int64_t expected_ns = kStart + 110 * kMs;
  for (std::int64_t now_ns = kStart + 100 * kMs; now_ns < expected_ns; now_ns += 1'000) {
    EXPECT_LT(now_ns + forecast.sleep_ns(now_ns), expected_ns + UnitForecast::kCoarseNs);
    if (forecast.sleep_ns(now_ns) > UnitForecast::kFineNs) {
      EXPECT_LE(now_ns + forecast.sleep_ns(now_ns), expected_ns);
    }
  }
}

TEST(UnitForecast, APauseTeachesNothing) {
  UnitForecast forecast;
  run_iteration(forecast, kStart);
  forecast.iteration_began(kStart + 100 * kMs);
  forecast.pause();
  EXPECT_EQ(forecast.sleep_ns(kStart + 110 * kMs), UnitForecast::kCoarseNs);
  run_iteration(forecast, kStart + 9'000 * kMs);
  forecast.iteration_began(kStart + 9'100 * kMs);
  EXPECT_EQ(forecast.sleep_ns(kStart + 9'110 * kMs), UnitForecast::kFineNs);
}

TEST(UnitForecast, BoundsItsMemoryWithoutIterations) {
  UnitForecast forecast;
  for (std::size_t number = 0; number < UnitForecast::kMaxUnits + 10; ++number) {
    forecast.unit_began(kStart + static_cast<std::int64_t>(number) * kMs, unit(0));
  }
  EXPECT_EQ(forecast.sleep_ns(kStart), UnitForecast::kCoarseNs);
}

TEST(UnitForecast, TakesTimesThatRunBackwards) {
  UnitForecast forecast;
  forecast.iteration_began(kStart);
  forecast.unit_began(kStart - 500 * kMs, unit(0));
  forecast.iteration_began(kStart);
  EXPECT_EQ(forecast.sleep_ns(kStart), UnitForecast::kFineNs) << "expected at once, not in the past";
  EXPECT_EQ(forecast.sleep_ns(kStart + kMs), UnitForecast::kCoarseNs);
}

/// The microbatch of the unit that is expected; -1: none. 100: and in the next iteration.
int expected(const UnitForecast& forecast, std::int64_t now_ns, std::int64_t ahead_ns,
             UnitForecast::Pace pace = UnitForecast::Pace::early) {
  const std::optional<UnitForecast::Expected> found = forecast.newest_by(now_ns, now_ns + ahead_ns, pace);
  if (!found) return -1;
  EXPECT_EQ(found->unit.type, ipc::UnitEventType::unit_begin);
  return static_cast<int>(found->unit.microbatch) + (found->in_next_iteration ? 100 : 0);
}

/// After iterations that were all alike nothing deviates, so that the slack has gone.
UnitForecast after_iterations(int iterations) {
  UnitForecast forecast;
  for (int i = 0; i < iterations; ++i) run_iteration(forecast, kStart + i * 100 * kMs);
  return forecast;
}

TEST(UnitForecast, ExpectsTheUnitsOfTheLastIterationInTheirOrder) {
  UnitForecast forecast = after_iterations(40);
  const std::int64_t begin = kStart + 4'000 * kMs;
  forecast.iteration_began(begin);
  EXPECT_EQ(expected(forecast, begin, 9 * kMs), -1);
  EXPECT_EQ(expected(forecast, begin, 11 * kMs), 0);
  EXPECT_EQ(expected(forecast, begin, 31 * kMs), 1) << "several units ahead";
  EXPECT_EQ(expected(forecast, begin + 5 * kMs, 6 * kMs), 0);
  forecast.unit_began(begin + 10 * kMs, unit(0));
  EXPECT_EQ(expected(forecast, begin + 10 * kMs, 19 * kMs), -1) << "the unit that has begun is not expected";
  EXPECT_EQ(expected(forecast, begin + 10 * kMs, 21 * kMs), 1);
  EXPECT_EQ(expected(forecast, begin + 10 * kMs, 200 * kMs), 102) << "one iteration ahead, not more";
}

TEST(UnitForecast, ExpectsUnitsThatVaryEarlyAndLate) {
  UnitForecast forecast = after_iterations(2);  // the first one counts as one of which little is known
  const std::int64_t begin = kStart + 200 * kMs;
  forecast.iteration_began(begin);
  const auto by_ms = [&](double ahead_ms, UnitForecast::Pace pace) {
    return expected(forecast, begin, static_cast<std::int64_t>(ahead_ms * kMs), pace);
  };
  EXPECT_EQ(by_ms(9.6, UnitForecast::Pace::early), -1);
  EXPECT_EQ(by_ms(9.8, UnitForecast::Pace::early), 0);
  EXPECT_EQ(by_ms(10.2, UnitForecast::Pace::late), -1);
  EXPECT_EQ(by_ms(10.4, UnitForecast::Pace::late), 0);
  EXPECT_EQ(expected(forecast, begin + 50 * kMs, 0, UnitForecast::Pace::late), 0) << "overdue";
}

TEST(UnitForecast, ExpectsTheFirstUnitOfTheNextIteration) {
  UnitForecast forecast = after_iterations(40);
  const std::int64_t last = kStart + 3'960 * kMs;
  EXPECT_EQ(expected(forecast, last, 49 * kMs), -1) << "the iteration begins after 40 ms, its first unit 10 ms later";
  EXPECT_EQ(expected(forecast, last, 51 * kMs), 100);
}

TEST(UnitForecast, ExpectsAUnitThatBeginsItsIteration) {
  UnitForecast forecast;
  for (int i = 0; i < 40; ++i) {
    forecast.iteration_began(kStart + i * 100 * kMs);
    forecast.unit_began(kStart + i * 100 * kMs, unit(0));
    forecast.unit_began(kStart + i * 100 * kMs + 50 * kMs, unit(1));
  }
  const std::int64_t last = kStart + 3'950 * kMs;
  EXPECT_EQ(expected(forecast, last, 49 * kMs), -1);
  EXPECT_EQ(expected(forecast, last, 51 * kMs), 100) << "at the same time as its iteration";
}

TEST(UnitForecast, ExpectsWhatIsOverdueNow) {
  UnitForecast forecast = after_iterations(40);
  const std::int64_t begin = kStart + 4'000 * kMs;
  forecast.iteration_began(begin);
  EXPECT_EQ(expected(forecast, begin + 50 * kMs, 0), 0);
  EXPECT_EQ(expected(forecast, begin + 50 * kMs, 19 * kMs), 0) << "the next follows 20 ms after it, not earlier";
  EXPECT_EQ(expected(forecast, begin + 50 * kMs, 21 * kMs), 1);
}

TEST(UnitForecast, ForgetsTheWarmUpOfTheFirstIterationAtOnce) {
  UnitForecast forecast;
  forecast.iteration_began(kStart);
  forecast.unit_began(kStart + 900 * kMs, unit(0));
  forecast.unit_began(kStart + 2'000 * kMs, unit(1));
  forecast.unit_began(kStart + 2'030 * kMs, unit(2));
  run_iteration(forecast, kStart + 3'000 * kMs);
  const std::int64_t third = kStart + 3'100 * kMs;
  forecast.iteration_began(third);
  EXPECT_EQ(expected(forecast, third, 9 * kMs), -1);
  EXPECT_EQ(expected(forecast, third, 11 * kMs), 0);
  EXPECT_EQ(expected(forecast, third, 31 * kMs), 1);
  EXPECT_EQ(expected(forecast, third, 61 * kMs), 2);
}

TEST(UnitForecast, ForgetsAStallAtOnce) {
  UnitForecast forecast = after_iterations(40);
  const std::int64_t stalled = kStart + 4'000 * kMs;
  forecast.iteration_began(stalled);
  forecast.unit_began(stalled + 500 * kMs, unit(0));
  forecast.unit_began(stalled + 520 * kMs, unit(1));
  forecast.unit_began(stalled + 550 * kMs, unit(2));
  run_iteration(forecast, stalled + 600 * kMs);
  const std::int64_t next = stalled + 700 * kMs;
  forecast.iteration_began(next);
  EXPECT_EQ(expected(forecast, next, 9 * kMs), -1);
  EXPECT_EQ(expected(forecast, next, 11 * kMs), 0);
}

TEST(UnitForecast, ExpectsNothingWhereNothingIsKnown) {
  UnitForecast forecast;
  EXPECT_EQ(expected(forecast, kStart, 1'000 * kMs), -1);
  run_iteration(forecast, kStart);
  EXPECT_EQ(expected(forecast, kStart + 60 * kMs, 1'000 * kMs), -1) << "the first iteration resembles none";
  forecast.iteration_began(kStart + 100 * kMs);
  EXPECT_EQ(expected(forecast, kStart + 100 * kMs, 20 * kMs), 0);
  forecast.pause();
  EXPECT_EQ(expected(forecast, kStart + 100 * kMs, 1'000 * kMs), -1);
}

TEST(UnitForecast, ExpectsNothingMoreInAnIterationOfAnotherOrder) {
  UnitForecast forecast = after_iterations(3);
  const std::int64_t begin = kStart + 300 * kMs;
  forecast.iteration_began(begin);
  forecast.unit_began(begin + 10 * kMs, unit(1));
  EXPECT_EQ(expected(forecast, begin + 10 * kMs, 1'000 * kMs), -1);
  forecast.unit_began(begin + 20 * kMs, unit(0));
  forecast.iteration_began(begin + 100 * kMs);
  EXPECT_EQ(expected(forecast, begin + 100 * kMs, 11 * kMs), 1) << "what follows is what followed";
  forecast.unit_began(begin + 110 * kMs, unit(1));
  EXPECT_EQ(expected(forecast, begin + 110 * kMs, 11 * kMs), 0);
  forecast.unit_began(begin + 120 * kMs, unit(0));
  EXPECT_EQ(expected(forecast, begin + 120 * kMs, 70 * kMs), -1) << "two units an iteration";
}

TEST(UnitForecast, AStallSaysLittleOfTheNextIteration) {
  UnitForecast forecast = after_iterations(40);
  const std::int64_t begin = kStart + 10'000 * kMs;
  forecast.iteration_began(begin - 5'000 * kMs);
  forecast.unit_began(begin, unit(0));  // 5 s where 10 ms were expected
  forecast.unit_began(begin + 20 * kMs, unit(1));
  forecast.unit_began(begin + 50 * kMs, unit(2));
  forecast.iteration_began(begin + 90 * kMs);
  EXPECT_EQ(expected(forecast, begin + 90 * kMs, 16 * kMs), 0);
}

/// How units of gaps that vary are expected.
struct Lead {
  double share_before = 0;  ///< of the units: those that were expected before they began
  double mean_early = 0;    ///< how much earlier, as a share of the gap
};

Lead lead_at_noise(double noise) {
  std::mt19937 random(7);
  std::normal_distribution<double> factor(1, noise);
  UnitForecast forecast;
  std::int64_t now_ns = kStart;
  int units = 0;
  Lead lead;
  for (int iteration = 0; iteration < 400; ++iteration) {
    now_ns += kMs;
    forecast.iteration_began(now_ns);
    for (std::uint32_t i = 0; i < 8; ++i) {
      const double mean_ns = (i % 2 == 0 ? 50.0 : 100.0) * kMs;
      const auto gap_ns = static_cast<std::int64_t>(mean_ns * factor(random));
      // When it is first expected, by bisection.
      std::int64_t low = 0;
      std::int64_t high = 2 * gap_ns;
      while (high - low > 1'000) {
        const std::int64_t middle = (low + high) / 2;
        (expected(forecast, now_ns, middle) == static_cast<int>(i) ? high : low) = middle;
      }
      now_ns += gap_ns;
      forecast.unit_began(now_ns, unit(i));
      if (iteration < 20) continue;
      ++units;
      if (high <= gap_ns) lead.share_before += 1;
      lead.mean_early += static_cast<double>(gap_ns - high) / mean_ns;
    }
  }
  return {lead.share_before / units, lead.mean_early / units};
}

TEST(UnitForecast, ExpectsNinetyNineOfAHundredUnitsBeforeTheyBegin) {
  const Lead lead = lead_at_noise(0.007);
  EXPECT_GE(lead.share_before, 0.99);
  EXPECT_LE(lead.mean_early, 0.03);
}

TEST(UnitForecast, ExpectsNoUnitFarTooEarlyWhereTheyVaryMuch) {
  const Lead lead = lead_at_noise(0.1);
  EXPECT_GE(lead.share_before, 0.5);
  EXPECT_LE(lead.mean_early, 0.035);
}

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

TEST_F(LeasedUnitsTest, WantALowerClockWhereItsUnitIsOverdue) {
  units_.follow(std::make_unique<FakeUnitClocks>(1500, 1005, 1));
  for (std::uint32_t iteration = 0; iteration < 4; ++iteration) {
    begin_iteration(iteration);
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      if (iteration == 3 && kind == OpKind::backward) break;
      begin_unit(kind);
      units_.look();
      EXPECT_EQ(units_.begun_clock_mhz(), kind == OpKind::forward ? 1500 : 1005);
      std::this_thread::sleep_for(2ms);
    }
  }
  ASSERT_TRUE(eventually([this] {
    EXPECT_FALSE(units_.look().any);
    return units_.wanted_clock_mhz() == 1005;
  }));
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

TEST_F(LeasedUnitsTest, LeaveNothingToTheNextLease) {
  begin_unit(OpKind::forward);
  begin_unit(OpKind::forward);
  units_.look();
  units_.suspend();
  ring_->ring().requested_clock_mhz = 1005;
  units_.end();
  EXPECT_FALSE(units_.active());
  EXPECT_EQ(state(), ipc::RingState::ended);
  EXPECT_EQ(ring_->ring().requested_clock_mhz.load(), 0U);
  EXPECT_FALSE(units_.suspended());
  EXPECT_EQ(units_.counts().begun, 0);
  units_.end();
  EXPECT_EQ(units_.counts().late, 1) << "of all leases";
}

}  // namespace

}  // namespace lowgear::agent
