#include "planning/profile/switch_latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace lowgear::profile {

namespace {

/// A GPU that runs forwards of 0.06 s and backwards of 0.12 s at 1410 MHz, and follows a request late.
class LateGpu {
 public:
  LateGpu(double latency_s, double noise) : latency_s_(latency_s), noise_(noise) {}

  /// So many iterations of four forwards and four backwards; clocks settle in the first.
  void run(int clock_mhz, int iterations) {
    for (int i = 0; i < iterations; ++i, ++iteration_) {
      for (int unit = 0; unit < 8; ++unit) {
        run_unit(unit < 4 ? OpKind::forward : OpKind::backward, unit % 4, clock_mhz, i == 0);
      }
    }
  }

  void run_unit(OpKind kind, int microbatch, int clock_mhz, bool settling) {
    const double work_s = kind == OpKind::forward ? 0.06 : 0.12;
    const double start_s = now_s_;
    if (clock_mhz != asked_mhz_) takes_effect_s_ = asked_mhz_ == 0 ? start_s : start_s + latency_s_;
    asked_mhz_ = clock_mhz;
    if (takes_effect_s_ <= start_s) effective_mhz_ = clock_mhz;
    const double at_old_s = std::max(0.0, takes_effect_s_ - start_s);
    const double old_s = work_s * 1410 / (effective_mhz_ == 0 ? clock_mhz : effective_mhz_);
    const double new_s = work_s * 1410 / clock_mhz;
    const double clean_s = at_old_s >= old_s ? old_s : at_old_s + (1 - at_old_s / old_s) * new_s;
    now_s_ = start_s + clean_s * (1 + noise_ * normal_(random_));
    recording_.units.push_back({iteration_, 0, kind, microbatch, start_s, now_s_, clock_mhz, settling});
    now_s_ += 0.001;
  }

  [[nodiscard]] const Recording& recording() const { return recording_; }

 private:
  double latency_s_;
  double noise_;
  std::mt19937_64 random_{9};
  std::normal_distribution<double> normal_;
  Recording recording_;
  int iteration_ = 0;
  double now_s_ = 0;
  int asked_mhz_ = 0;
  int effective_mhz_ = 0;
  double takes_effect_s_ = 0;
};

Recording sweep(double latency_s, double noise) {
  LateGpu gpu(latency_s, noise);
  for (const int clock_mhz : {1410, 1290, 1155, 1020, 885, 1410, 885}) gpu.run(clock_mhz, 4);
  return gpu.recording();
}

TEST(FindSwitchLatency, FindsItInASweep) {
  for (const double latency_s : {0.005, 0.01, 0.025, 0.05}) {
    const auto found = find_switch_latency(std::vector{sweep(latency_s, 0)});
    ASSERT_TRUE(found) << latency_s;
    EXPECT_NEAR(found->latency_s, latency_s, 1e-9);
    EXPECT_EQ(found->changes, 6);
    EXPECT_NEAR(found->error_s, 0, 1e-9);
  }
}

TEST(FindSwitchLatency, LooksBeyondUnitsThatRunAtTheClockBeforeToTheirEnd) {
  for (const double latency_s : {0.09, 0.2}) {
    const auto found = find_switch_latency(std::vector{sweep(latency_s, 0)});
    ASSERT_TRUE(found) << latency_s;
    EXPECT_NEAR(found->latency_s, latency_s, 0.004) << "but for the pauses between units";
  }
}

TEST(FindSwitchLatency, StatesItsErrorUnderNoise) {
  std::vector<Recording> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(sweep(0.025, 0.01));
    ranks.back().rank = rank;
  }
  const auto found = find_switch_latency(ranks);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->changes, 24);
  EXPECT_GT(found->error_s, 0);
  EXPECT_NEAR(found->latency_s, 0.025, 4 * found->error_s);
  EXPECT_LT(found->error_s, 0.005);
}

TEST(FindSwitchLatency, FindsItWherePlansChangeClocksWithinIterations) {
  LateGpu gpu(0.025, 0);
  for (int i = 0; i < 10; ++i) {
    for (int unit = 0; unit < 4; ++unit) gpu.run_unit(OpKind::forward, unit, unit < 2 ? 1410 : 1155, false);
  }
  const auto found = find_switch_latency(std::vector{gpu.recording()});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->changes, 19);
  EXPECT_NEAR(found->latency_s, 0.025, 1e-9);
}

TEST(FindSwitchLatency, FindsNoneWhereNothingTellsIt) {
  LateGpu one_clock(0.025, 0);
  one_clock.run(1410, 8);
  EXPECT_FALSE(find_switch_latency(std::vector{one_clock.recording()}));
  LateGpu few_changes(0.025, 0);
  for (const int clock_mhz : {1410, 1155, 885}) few_changes.run(clock_mhz, 4);
  EXPECT_FALSE(find_switch_latency(std::vector{few_changes.recording()}));
  LateGpu alike(0.025, 0);
  for (int i = 0; i < 8; ++i) alike.run(1410 - 15 * i, 4);
  EXPECT_FALSE(find_switch_latency(std::vector{alike.recording()})) << "clocks that differ by 1 %";
  EXPECT_FALSE(find_switch_latency(std::vector{sweep(0.025, 0.3)})) << "noise of a third";
  EXPECT_FALSE(find_switch_latency(std::vector{sweep(0, 0)})) << "clocks that change at once";
  EXPECT_FALSE(find_switch_latency({}));
}

TEST(FindSwitchLatency, LeavesOutRecordingsWithClocksThatWereRequestedAhead) {
  Recording ahead = sweep(0.003, 0);  // what remains of 28 ms
  ahead.clock_lead_s = 0.025;
  EXPECT_FALSE(find_switch_latency(std::vector{ahead}));
  const auto found = find_switch_latency(std::vector{ahead, sweep(0.028, 0)});
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->latency_s, 0.028, 1e-9);
}

Recording recording_of(std::initializer_list<RecordedUnit> units) {
  Recording recording;
  recording.units = units;
  return recording;
}

RecordedUnit unit_at(double start_s, double end_s, int clock_mhz) {
  return {.start_s = start_s, .end_s = end_s, .clock_mhz = clock_mhz};
}

TEST(ClockEvents, LastUntilTheNextClockIsRequested) {
  const Recording recording = recording_of(
      {unit_at(1, 2, 1410), unit_at(2.5, 3, 1410), unit_at(4, 5, 900), unit_at(6, 7, 0), unit_at(8, 9, 900)});
  EXPECT_EQ(freqevents_csv(recording),
            "freq,start,end\n1410,1000000000,4000000000\n900,4000000000,6000000000\n900,8000000000,9000000000\n");
}

TEST(ClockEvents, AreSince1970WhereThatIsKnown) {
  Recording recording = recording_of({unit_at(0.25, 0.5, 1410)});
  recording.start_unix_s = 1'700'000'000;
  EXPECT_EQ(freqevents_csv(recording), "freq,start,end\n1410,1700000000250000000,1700000000500000000\n");
}

TEST(ClockEvents, OfNoRequestAreNone) {
  EXPECT_TRUE(clock_events(recording_of({unit_at(0, 1, 0), unit_at(1, 2, 0)})).empty());
  EXPECT_TRUE(clock_events({}).empty());
}

}  // namespace

}  // namespace lowgear::profile
