#include "client/measure/iteration_meter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>

#include "client/agent/agent_lease.h"
#include "client/server/profile_collector.h"

namespace lowgear::client {

namespace {

constexpr double kPowerW = 400;

UnitRecord record(RecordType type, std::uint64_t iteration, double begin_s, double end_s) {
  UnitRecord record;
  record.type = type;
  record.iteration = iteration;
  record.begin_ns = static_cast<std::uint64_t>(std::llround(begin_s * 1e9));
  record.end_ns = static_cast<std::uint64_t>(std::llround(end_s * 1e9));
  record.clock_mhz = 1200;
  return record;
}

/// A GPU that draws 400 W, whose counter steps every 100 ms, read every 47 ms.
measure::GpuSample sample_at(double time_s) {
  measure::GpuSample sample;
  sample.time_s = time_s + 0.003;
  sample.counter_time_s = time_s;
  sample.energy_j = kPowerW * std::floor(time_s * 10) / 10;
  sample.power_w = kPowerW;
  sample.throttle_reasons = gpu::ThrottleReasons{.bits = time_s < 5 ? 0x4U : 0U};
  return sample;
}

measure::GpuMeter gpu_meter() {
  gpu::GpuFeatures features{};
  features[static_cast<std::size_t>(gpu::GpuFeature::energy_counter)].works = true;
  return {gpu::GpuIdentity{}, features};
}

/// Ten iterations of a second, each with two units of 0.3 s, marked and sampled as they happen but seen `late` later.
std::vector<MeasuredIteration> measure(IterationMeter& meter) {
  std::vector<MeasuredIteration> measured;
  double sampled_s = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto start_s = static_cast<double>(i);
    // Samples come before the records of the same time, or some time after: by up to a look of 50 ms.
    for (; sampled_s < start_s + 1.05; sampled_s += 0.047) meter.add(sample_at(sampled_s));
    EXPECT_FALSE(meter.add(record(RecordType::iteration_begin, i, start_s, start_s)));
    for (const double at_s : {0.1, 0.5}) {
      EXPECT_FALSE(meter.add(record(RecordType::unit, i, start_s + at_s, start_s + at_s + 0.3)));
    }
    if (const auto end = meter.add(record(RecordType::iteration_end, i, start_s, start_s + 0.98))) {
      measured.push_back(*end);
    }
    meter.advance_to(static_cast<std::uint64_t>((start_s + 0.9) * 1e9));
  }
  return measured;
}

TEST(IterationMeter, TellsTimeAndEnergyOfWhatIsOver) {
  IterationMeter meter(gpu_meter());
  const auto measured = measure(meter);
  ASSERT_EQ(measured.size(), 10U);
  EXPECT_FALSE(measured[0].is_counted) << "the counter had not shown two steps yet";
  EXPECT_NEAR(measured[0].energy_j.value(), kPowerW * 0.98, measured[0].energy_error_j.value());
  for (std::size_t i = 1; i < measured.size(); ++i) {
    EXPECT_EQ(measured[i].iteration, i);
    EXPECT_NEAR(measured[i].time_s, 0.98, 1e-9);
    EXPECT_NEAR(measured[i].compute_s, 0.6, 1e-9);
    ASSERT_TRUE(measured[i].energy_j && measured[i].is_counted) << i;
    EXPECT_NEAR(*measured[i].energy_j, kPowerW * 0.98, measured[i].energy_error_j.value() + 1e-6) << i;
    EXPECT_LT(measured[i].energy_error_j.value(), kPowerW * 0.06) << i;
  }
  EXPECT_NEAR(measured[2].throttled_power_s.value(), 0.98, 0.06);
  EXPECT_NEAR(measured[8].throttled_power_s.value(), 0, 0.06);
  EXPECT_EQ(measured[8].throttled_thermal_s, 0);
}

TEST(IterationMeter, TakesPowerReadingsWhereTheCounterCannotBeRight) {
  IterationMeter meter(gpu_meter());
  std::vector<MeasuredIteration> measured;
  double sampled_s = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto start_s = static_cast<double>(i);
    for (; sampled_s < start_s + 1.05; sampled_s += 0.047) {
      measure::GpuSample sample = sample_at(sampled_s);
      if (sampled_s > 2.5) *sample.energy_j += 1e6;
      if (sampled_s > 5.5) sample.energy_j = 1e6;
      meter.add(sample);
    }
    (void)meter.add(record(RecordType::iteration_begin, i, start_s, start_s));
    measured.push_back(meter.add(record(RecordType::iteration_end, i, start_s, start_s + 0.98)).value());
  }
  for (const MeasuredIteration& iteration : measured) {
    EXPECT_NEAR(iteration.energy_j.value(), kPowerW * 0.98, iteration.energy_error_j.value() + 1e-6)
        << iteration.iteration;
    EXPECT_LT(iteration.energy_error_j.value(), kPowerW * 0.1) << iteration.iteration;
  }
  EXPECT_FALSE(measured[2].is_counted) << "it jumped";
  EXPECT_TRUE(measured[4].is_counted);
  EXPECT_FALSE(measured[6].is_counted) << "it stands still";
  EXPECT_FALSE(measured[9].is_counted);
}

TEST(IterationMeter, TellsTimesWithoutAGpu) {
  IterationMeter meter(std::nullopt);
  const auto measured = measure(meter);
  ASSERT_EQ(measured.size(), 10U);
  EXPECT_NEAR(measured[3].compute_s, 0.6, 1e-9);
  EXPECT_FALSE(measured[3].energy_j);
}

TEST(IterationMeter, LeavesOutWhatItCannotTell) {
  IterationMeter meter(std::nullopt);
  EXPECT_FALSE(meter.add(record(RecordType::iteration_end, 0, 0, 1))) << "has not begun";
  (void)meter.add(record(RecordType::iteration_begin, 1, 1, 1));
  meter.lose_iteration();
  EXPECT_FALSE(meter.add(record(RecordType::iteration_end, 1, 1, 2)));
  (void)meter.add(record(RecordType::iteration_begin, 2, 2, 2));
  EXPECT_TRUE(meter.add(record(RecordType::iteration_end, 2, 2, 3)));
}

TEST(PlanVersions, AreThoseInForce) {
  PlanVersions versions;
  EXPECT_EQ(versions.version_of(0), 0);
  versions.follow(5, 1);
  versions.follow(9, 2);
  EXPECT_EQ(versions.version_of(4), 0);
  EXPECT_EQ(versions.version_of(8), 1);
  versions.follow(9, 3);  // in the place of 2
  EXPECT_EQ(versions.version_of(9), 3);
  versions.follow(12, 4);
  versions.forget_from(12);  // replaced before it began
  versions.follow(10, 0);    // the agent has gone
  EXPECT_EQ(versions.version_of(9), 3);
  EXPECT_EQ(versions.version_of(11), 0);
}

/// Two kinds of units of different power, whose shares of time differ from iteration to iteration, at 100 ms a step.
class Workload {
 public:
  static constexpr double kForwardW = 500;
  static constexpr double kBackwardW = 300;
  static constexpr double kWaitingW = 100;

  explicit Workload(ProfileCollector& collector) : collector_(&collector) {}

  /// Times as long as usual, at the same power.
  double slow_units = 1;

  std::optional<ProfileResult> run(std::uint64_t iteration, int clock_mhz) {
    clock_mhz_ = clock_mhz;
    (void)collector_->add(record(RecordType::iteration_begin, iteration, now_s_, now_s_));
    const double begin_s = now_s_;
    const double share = 0.5 + 0.4 * std::sin(static_cast<double>(iteration) * 1.7);
    unit(iteration, OpKind::forward, slow_units * 0.3 * share, kForwardW);
    pass(0.1 * (1 - share), kWaitingW);
    unit(iteration, OpKind::backward, slow_units * 0.3 * (1 - share), kBackwardW);
    return collector_->add(record(RecordType::iteration_end, iteration, begin_s, now_s_));
  }

 private:
  void pass(double time_s, double power_w) {
    const double end_s = now_s_ + time_s;
    while (next_sample_s_ < end_s) {
      energy_j_ += (next_sample_s_ - now_s_) * power_w;
      now_s_ = next_sample_s_;
      if (now_s_ >= next_step_s_) {
        counter_j_ = energy_j_;
        next_step_s_ += 0.1;
      }
      measure::GpuSample sample;
      sample.time_s = now_s_;
      sample.counter_time_s = now_s_;
      sample.energy_j = counter_j_;
      collector_->add(sample);
      next_sample_s_ += 0.005;
    }
    energy_j_ += (end_s - now_s_) * power_w;
    now_s_ = end_s;
  }
  void unit(std::uint64_t iteration, OpKind kind, double time_s, double power_w) {
    const double begin_s = now_s_;
    pass(time_s, power_w * clock_mhz_ / 1200);
    UnitRecord unit = record(RecordType::unit, iteration, begin_s, now_s_);
    unit.kind = kind;
    unit.clock_mhz = static_cast<std::uint32_t>(clock_mhz_);
    (void)collector_->add(unit);
  }

  ProfileCollector* collector_;
  int clock_mhz_ = 1200;
  double now_s_ = 1;
  double next_sample_s_ = 1;
  double next_step_s_ = 1.1;
  double energy_j_ = 0;
  double counter_j_ = 0;
};

constexpr int kFullMhz = 1200;
constexpr int kTriedMhz = 900;

/// Trials of one clock: iterations 13 to 22.
ProfileRequest request(int plan_version = 4, int sweep = 1) {
  return {.plan_version = plan_version,
          .sweep = sweep,
          .from_iteration = 3,
          .trials = {{.first_iteration = 13, .iterations = 10, .clock_mhz = kTriedMhz}},
          .settle_iterations = 2,
          .settle_s = 0};
}

int clock_of(const ProfileRequest& request, std::uint64_t iteration) {
  const auto number = static_cast<std::int64_t>(iteration);
  for (const plan::ClockTrial& trial : request.trials) {
    if (number >= trial.first_iteration && number < trial.end_iteration()) return trial.clock_mhz;
  }
  return kFullMhz;
}

/// Runs from `iteration` on until there is a result.
std::optional<ProfileResult> run(Workload& workload, const ProfileRequest& request, std::uint64_t& iteration) {
  std::optional<ProfileResult> result;
  for (; !result && iteration < 1'000; ++iteration) result = workload.run(iteration, clock_of(request, iteration));
  return result;
}

const profile::RecordedCell& cell(const ProfileResult& result, OpKind kind, int clock_mhz) {
  for (const profile::RecordedCell& cell : result.profile.cells) {
    if (cell.key.kind == kind && cell.key.clock_mhz == clock_mhz) return cell;
  }
  throw std::runtime_error("no such cell");
}

/// In every third iteration the machine is busy.
TEST(ProfileCollector, LeavesIterationsOutThatStalled) {
  ProfileCollector collector({}, 0);
  Workload workload(collector);
  collector.begin(request());
  std::optional<ProfileResult> result;
  for (std::uint64_t iteration = 0; !result && iteration < 100; ++iteration) {
    workload.slow_units = iteration % 3 == 0 ? 8 : 1;
    result = workload.run(iteration, clock_of(request(), iteration));
  }
  ASSERT_TRUE(result);
  EXPECT_NE(result->problem.find("7 iterations stalled and are left out"), std::string::npos) << result->problem;
  EXPECT_EQ(cell(*result, OpKind::forward, kFullMhz).units, 6);
  EXPECT_EQ(cell(*result, OpKind::forward, kTriedMhz).units, 5);
  for (const int clock_mhz : {kFullMhz, kTriedMhz}) {
    EXPECT_LT(cell(*result, OpKind::forward, clock_mhz).time_s, 0.27) << "as the longest unit of another iteration";
  }
}

/// Also the only iteration at a clock: it takes longer than the clock explains.
TEST(ProfileCollector, MeasuresNothingAtAClockWhoseIterationsAllStalled) {
  ProfileCollector collector({}, 0);
  Workload workload(collector);
  collector.begin(request());
  std::optional<ProfileResult> result;
  for (std::uint64_t iteration = 0; !result && iteration < 100; ++iteration) {
    const int clock_mhz = clock_of(request(), iteration);
    workload.slow_units = clock_mhz == kTriedMhz ? 3 : 1;
    result = workload.run(iteration, clock_mhz);
  }
  ASSERT_TRUE(result);
  EXPECT_NO_THROW((void)cell(*result, OpKind::forward, kFullMhz));
  EXPECT_ANY_THROW((void)cell(*result, OpKind::forward, kTriedMhz));
}

TEST(ProfileCollector, MeasuresTheEnergyOfUnitsAtEachClock) {
  ProfileCollector collector({}, 0);
  Workload workload(collector);
  collector.begin(request());
  std::uint64_t iteration = 0;
  const std::optional<ProfileResult> result = run(workload, request(), iteration);
  ASSERT_TRUE(result);
  EXPECT_EQ(iteration, 23U) << "with the last iteration of the trials";
  EXPECT_EQ(result->plan_version, 4);
  EXPECT_EQ(result->problem, "");
  ASSERT_EQ(result->profile.cells.size(), 4U);
  const profile::RecordedCell& forward = cell(*result, OpKind::forward, kTriedMhz);
  EXPECT_EQ(forward.units, 8) << "those of two iterations that settle are left out";
  EXPECT_NEAR(forward.power_w, Workload::kForwardW * kTriedMhz / kFullMhz, 40);
  EXPECT_EQ(cell(*result, OpKind::forward, kFullMhz).units, 10) << "nothing has to settle before the first change";
  EXPECT_NEAR(cell(*result, OpKind::backward, kFullMhz).power_w, Workload::kBackwardW, 40);
  EXPECT_FALSE(collector.request()) << "done";
  EXPECT_FALSE(workload.run(iteration, kFullMhz));
}

TEST(ProfileCollector, LeavesUnitsOutThatBeginWhileTheClockSettles) {
  ProfileCollector collector({}, 0);
  Workload workload(collector);
  ProfileRequest settling = request();
  settling.settle_iterations = 0;
  settling.settle_s = 0.01;  // a first unit begins with its iteration
  collector.begin(settling);
  std::uint64_t iteration = 0;
  const std::optional<ProfileResult> result = run(workload, settling, iteration);
  ASSERT_TRUE(result);
  EXPECT_EQ(cell(*result, OpKind::forward, kTriedMhz).units, 9);
  EXPECT_EQ(cell(*result, OpKind::backward, kTriedMhz).units, 10);
}

/// A GPU without a counter.
TEST(ProfileCollector, SaysWhyNothingIsMeasured) {
  ProfileCollector collector({}, 0);
  collector.begin(request());
  std::optional<ProfileResult> result;
  std::uint64_t iteration = 0;
  for (; !result && iteration < 1'000; ++iteration) {
    const double now_s = static_cast<double>(iteration);
    (void)collector.add(record(RecordType::iteration_begin, iteration, now_s, now_s));
    (void)collector.add(record(RecordType::unit, iteration, now_s, now_s + 0.1));
    result = collector.add(record(RecordType::iteration_end, iteration, now_s, now_s + 0.2));
  }
  ASSERT_TRUE(result);
  EXPECT_EQ(iteration, 23U);
  EXPECT_NE(result->problem, "");
  EXPECT_TRUE(result->profile.cells.empty());
}

TEST(ProfileCollector, AddsThePlansOfOneSweepUp) {
  ProfileCollector collector({}, 0);
  Workload workload(collector);
  collector.begin(request());
  std::uint64_t iteration = 0;
  ASSERT_TRUE(run(workload, request(), iteration));
  for (; iteration < 40; ++iteration) EXPECT_FALSE(workload.run(iteration, kFullMhz)) << "no request is open";
  ProfileRequest second{.plan_version = 5,
                        .sweep = 1,
                        .from_iteration = 40,
                        .trials = {{.first_iteration = 50, .iterations = 10, .clock_mhz = 1050}},
                        .settle_iterations = 2,
                        .settle_s = 0};
  collector.begin(second);
  const auto both = run(workload, second, iteration);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->plan_version, 5);
  EXPECT_EQ(both->profile.cells.size(), 6U);
  EXPECT_NEAR(cell(*both, OpKind::forward, kFullMhz).power_w, Workload::kForwardW, 40)
      << "what ran between the plans counts for nothing";
  second.plan_version = 6;
  second.sweep = 6;
  second.from_iteration = 60;
  second.trials[0].first_iteration = 70;
  collector.begin(second);
  const auto other = run(workload, second, iteration);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->profile.cells.size(), 4U) << "another sweep";
}

TEST(ProfileCollector, EndsEarlyWithWhatItHas) {
  ProfileCollector collector({}, 0);
  Workload workload(collector);
  collector.begin(request());
  for (std::uint64_t i = 0; i < 13; ++i) EXPECT_FALSE(workload.run(i, kFullMhz));
  const auto result = collector.finish();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->profile.cells.size(), 2U);
  EXPECT_FALSE(collector.finish());
}

TEST(ProfileCollector, LeavesOutAnIterationThatRanWithoutThePlan) {
  ProfileCollector collector({}, 0);
  Workload workload(collector);
  collector.begin(request());
  std::uint64_t iteration = 0;
  for (; iteration < 22; ++iteration) EXPECT_FALSE(workload.run(iteration, clock_of(request(), iteration)));
  const auto begin = record(RecordType::iteration_begin, iteration, 100, 100);
  (void)collector.add(begin);
  (void)collector.add(record(RecordType::unit, iteration, 100, 100.1));
  collector.discard_iteration();
  const auto result = collector.add(record(RecordType::iteration_end, iteration, 100, 100.2));
  ASSERT_TRUE(result);
  EXPECT_EQ(cell(*result, OpKind::forward, kTriedMhz).units, 7);
}

MeasuredIteration iteration(double time_s, double power_w, double mean_clock_mhz, int min_clock_mhz,
                            int max_clock_mhz) {
  MeasuredIteration iteration;
  iteration.time_s = time_s;
  iteration.energy_j = power_w * time_s;
  iteration.energy_error_j = 1;
  iteration.mean_sm_clock_mhz = mean_clock_mhz;
  iteration.min_sm_clock_mhz = min_clock_mhz;
  iteration.max_sm_clock_mhz = max_clock_mhz;
  return iteration;
}

TEST(GpuMeans, HasNothingToSayBeforeAnIteration) {
  const protocol::GpuNow now = GpuMeans().now();
  EXPECT_FALSE(now.power_w || now.sm_clock_mhz || now.sm_clock_min_mhz || now.sm_clock_max_mhz || now.temperature_c);
}

TEST(GpuMeans, WeighsIterationsByTheirTime) {
  GpuMeans means;
  means.add(iteration(1, 400, 1000, 900, 1410));
  means.add(iteration(3, 800, 1400, 1200, 1500));
  means.set_temperature(61);
  const protocol::GpuNow now = means.now();
  EXPECT_DOUBLE_EQ(now.power_w.value(), 700);
  EXPECT_DOUBLE_EQ(now.sm_clock_mhz.value(), 1300);
  EXPECT_EQ(now.sm_clock_min_mhz, 900);
  EXPECT_EQ(now.sm_clock_max_mhz, 1500);
  EXPECT_EQ(now.temperature_c, 61);
}

TEST(GpuMeans, ForgetsWhatLiesMoreThanFiveSecondsBack) {
  GpuMeans means;
  means.add(iteration(2, 100, 600, 600, 600));
  for (int i = 0; i < 3; ++i) means.add(iteration(2, 500, 1200, 1100, 1300));
  EXPECT_DOUBLE_EQ(means.now().power_w.value(), 500);
  EXPECT_EQ(means.now().sm_clock_min_mhz, 1100);
  means.add(iteration(20, 300, 900, 800, 1000));
  EXPECT_DOUBLE_EQ(means.now().power_w.value(), 300) << "one iteration where that is longer";
}

TEST(GpuMeans, TakesWhatIsReportedWhereSomethingIsNot) {
  GpuMeans means;
  MeasuredIteration without_energy = iteration(1, 0, 1000, 900, 1100);
  without_energy.energy_j.reset();
  means.add(without_energy);
  EXPECT_FALSE(means.now().power_w);
  MeasuredIteration without_clock = iteration(2, 450, 0, 0, 0);
  without_clock.mean_sm_clock_mhz.reset();
  without_clock.min_sm_clock_mhz.reset();
  without_clock.max_sm_clock_mhz.reset();
  means.add(without_clock);
  EXPECT_DOUBLE_EQ(means.now().power_w.value(), 450);
  EXPECT_DOUBLE_EQ(means.now().sm_clock_mhz.value(), 1000);
  EXPECT_EQ(means.now().sm_clock_min_mhz, 900);
}

}  // namespace

}  // namespace lowgear::client
