#include "client/search/point_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "planning/adapt/change_record.h"

namespace lowgear::client {

namespace {

TEST(PauseFilter, LeavesOutWhatTakesFarLongerOrShorterThanTheSamePointDoes) {
  PauseFilter pauses;
  for (const double time_s : {1.0, 1.1, 0.9, 1.5, 1.0}) EXPECT_FALSE(pauses.is_pause(0, time_s)) << time_s;
  EXPECT_TRUE(pauses.is_pause(0, 2.5)) << "an evaluation";
  EXPECT_FALSE(pauses.is_pause(0, 1.0));
  EXPECT_TRUE(pauses.is_pause(0, 0.4)) << "the last batch of an epoch";
  EXPECT_EQ(pauses.in_a_row(), 1);
}

TEST(PauseFilter, AllowsAnotherPointAnotherTime) {
  PauseFilter pauses;
  for (int i = 0; i < 5; ++i) (void)pauses.is_pause(0, 1.0);
  EXPECT_FALSE(pauses.is_pause(1, 2.5)) << "at a low clock";
  EXPECT_TRUE(pauses.is_pause(1, 9.0));
  EXPECT_FALSE(pauses.is_pause(1, 2.5));
  EXPECT_FALSE(pauses.is_pause(1, 2.5));
  EXPECT_FALSE(pauses.is_pause(1, 4.5)) << "its own median counts now";
  EXPECT_TRUE(pauses.is_pause(0, 2.5));
}

TEST(PauseFilter, CountsWhatItLeavesOutInARow) {
  PauseFilter pauses;
  for (int i = 0; i < 5; ++i) (void)pauses.is_pause(0, 1.0);
  for (int i = 1; i <= 7; ++i) {
    EXPECT_TRUE(pauses.is_pause(0, 3.0));
    EXPECT_EQ(pauses.in_a_row(), i);
  }
  EXPECT_FALSE(pauses.is_pause(0, 1.0));
  EXPECT_EQ(pauses.in_a_row(), 0);
}

using testing::HasSubstr;
using testing::SizeIs;

/// The GPUs of the job, as the agent sets them.
struct FakeGpus {
  double value = 0;
  int sets = 0;
  int releases = 0;
  std::string away;     ///< why no agent responds; empty: one does
  std::string refusal;  ///< of what is set or held
  std::string holder;   ///< another process
  double least = 0;     ///< that the agent allows
};

class FakeSetter final : public PointSetter {
 public:
  explicit FakeSetter(FakeGpus& gpus) : gpus_(gpus) {}
  void set(double value) override {
    require_held();
    if (!gpus_.holder.empty()) throw GpuHeld(gpus_.holder);
    if (value < gpus_.least) throw LeaseRefused("outside of what this agent allows");
    gpus_.value = value;
    ++gpus_.sets;
  }
  void require_held() override {
    if (!gpus_.away.empty()) throw Error(gpus_.away);
    if (!gpus_.refusal.empty()) throw LeaseRefused(gpus_.refusal);
  }
  void release() noexcept override {
    gpus_.value = 0;
    ++gpus_.releases;
  }

 private:
  FakeGpus& gpus_;
};

constexpr double kHighestMhz = 1980;

double iteration_time_s(double clock_mhz) { return 0.7 * kHighestMhz / clock_mhz + 0.3; }
double power_w(double clock_mhz) { return 200 + 450 * std::pow(clock_mhz / kHighestMhz, 2.5); }
double energy_pct(double clock_mhz) {
  const auto energy_j = [](double mhz) { return iteration_time_s(mhz) * power_w(mhz); };
  return 100 * (energy_j(clock_mhz) / energy_j(kHighestMhz) - 1);
}
double slowdown_pct(double clock_mhz) {
  return 100 * (iteration_time_s(clock_mhz) / iteration_time_s(kHighestMhz) - 1);
}

PointSearchOptions options(double allowed_slowdown_pct, std::vector<double> values = {kHighestMhz, 1500, 1200}) {
  PointSearchOptions options;
  options.values = std::move(values);
  options.search.allowed_slowdown_pct = allowed_slowdown_pct;
  options.search.block_s = 5;
  return options;
}

/// A job on one GPU whose counter steps every 100 ms, on a clock of its own.
class Job {
 public:
  explicit Job(PointSearchOptions options) {
    gpu::GpuFeatures features{};
    features[static_cast<std::size_t>(gpu::GpuFeature::energy_counter)].works = true;
    std::vector<measure::GpuMeter> meters;
    meters.emplace_back(gpu::GpuIdentity{}, features);
    search_.emplace(
        std::move(options), HeldPoint(std::make_unique<FakeSetter>(gpus), now()), std::move(meters), now(),
        [this](std::string_view line) { (line.starts_with("searching") ? progress : said).emplace_back(line); });
  }

  void run(int iterations) {
    for (int i = 0; i < iterations; ++i) run_iteration(0);
  }
  /// With something else in it that takes so long.
  void run_iteration(double pause_s) {
    const double begin_s = time_s_;
    add(RecordType::iteration_begin, begin_s);
    pass(iteration_time_s(gpus.value > 0 ? gpus.value : kHighestMhz) * work + pause_s);
    add(RecordType::iteration_end, begin_s);
    ++iteration_;
    pass(0.01);
  }
  /// Returns whether it came to an end.
  bool run_to_end(int most = 400) {
    for (int i = 0; i < most && !is_over(); ++i) run(1);
    return is_over();
  }
  [[nodiscard]] bool is_over() const {
    const PointSearchState state = status().state;
    return state != PointSearchState::waiting && state != PointSearchState::searching;
  }
  /// Time without an iteration.
  void pass(double time_s) {
    const double end_s = time_s_ + time_s;
    while (time_s_ < end_s) {
      const double step_s = std::min(0.01, end_s - time_s_);
      time_s_ += step_s;
      energy_j_ += step_s * power_w(gpus.value > 0 ? gpus.value : kHighestMhz);
      if (std::floor(time_s_ * 10) > counted_) {
        counted_ = std::floor(time_s_ * 10);
        counter_j_ = energy_j_;
      }
      if (time_s_ < sampled_s_ + 0.047) continue;
      sampled_s_ = time_s_;
      measure::GpuSample sample;
      sample.time_s = sample.counter_time_s = time_s_;
      if (counts_energy) sample.energy_j = counter_j_;
      search_->add(0, sample);
      search_->look();
    }
  }
  [[nodiscard]] PointSearchStatus status() const { return search_->status(); }
  void end() { search_.reset(); }

  FakeGpus gpus;
  std::vector<std::string> said;
  std::vector<std::string> progress;
  double work = 1;
  bool counts_energy = true;

 private:
  NowNs now() {
    return [this] { return static_cast<std::uint64_t>(time_s_ * 1e9); };
  }
  void add(RecordType type, double begin_s) {
    UnitRecord record;
    record.type = type;
    record.iteration = iteration_;
    record.begin_ns = static_cast<std::uint64_t>(begin_s * 1e9);
    record.end_ns = static_cast<std::uint64_t>(time_s_ * 1e9);
    search_->add(record);
  }

  double time_s_ = 1;
  double energy_j_ = 0;
  double counter_j_ = 0;
  double counted_ = 0;
  double sampled_s_ = 0;
  std::uint64_t iteration_ = 0;
  std::optional<PointSearch> search_;
};

TEST(PointSearch, FindsThePointThatSavesMostWithinTheSlowdownAndHoldsIt) {
  ASSERT_LT(slowdown_pct(1500), 25) << "allowed";
  ASSERT_GT(slowdown_pct(1200), 40) << "not allowed";
  ASSERT_LT(energy_pct(1200), energy_pct(1500)) << "though it saves more";
  Job job(options(25));
  ASSERT_TRUE(job.run_to_end());
  const PointSearchStatus status = job.status();
  EXPECT_EQ(status.state, PointSearchState::found) << status.reason;
  EXPECT_EQ(status.value, 1500);
  EXPECT_EQ(job.gpus.value, 1500);
  EXPECT_NEAR(status.estimate.energy_pct, energy_pct(1500), 0.5);
  EXPECT_NEAR(status.estimate.slowdown_pct, slowdown_pct(1500), 0.5);
  EXPECT_GT(status.cost.time_s, 0);
  ASSERT_THAT(job.said, SizeIs(1));
  EXPECT_THAT(job.said.front(), testing::StartsWith("operating point 1500 MHz: -"));
  EXPECT_EQ(job.progress.front(), "searching the operating point among 3: at least two rounds of at least 30 s each");
  EXPECT_THAT(job.progress.back(), HasSubstr("2 points left after round 1; the next takes at least 20 s"));
  EXPECT_THAT(job.said.front(), HasSubstr("trying cost"));
  job.run(20);
  EXPECT_EQ(job.gpus.value, 1500);
  job.end();
  EXPECT_EQ(job.gpus.value, 0) << "restored";
  EXPECT_THAT(job.said, SizeIs(1));
}

TEST(PointSearch, GivesTheGpusBackWhereNoPointSaves) {
  Job job(options(10));
  ASSERT_TRUE(job.run_to_end());
  EXPECT_EQ(job.status().state, PointSearchState::none) << job.status().reason;
  EXPECT_EQ(job.gpus.value, 0);
  EXPECT_EQ(job.status().value, 0);
  EXPECT_THAT(job.said, SizeIs(1));
}

TEST(PointSearch, SaysWhenTheJobEndsFirst) {
  Job job(options(25));
  job.run(20);
  ASSERT_EQ(job.status().state, PointSearchState::searching);
  ASSERT_NE(job.gpus.value, 0);
  job.end();
  EXPECT_EQ(job.gpus.value, 0);
  ASSERT_THAT(job.said, SizeIs(1));
  EXPECT_THAT(job.said.front(), HasSubstr("the job ended before the search"));
}

TEST(PointSearch, RepeatsTheBlockInWhichTheAgentWasAway) {
  Job job(options(25));
  job.run(25);
  ASSERT_EQ(job.status().state, PointSearchState::searching);
  job.gpus.away = "no agent responds";
  job.gpus.value = 0;  // it restores them when it starts again
  job.run(8);
  EXPECT_EQ(job.status().state, PointSearchState::searching);
  const std::int64_t seen = job.status().iterations;
  job.run(8);
  EXPECT_EQ(job.status().iterations, seen) << "nothing is observed";
  job.gpus.away.clear();
  ASSERT_TRUE(job.run_to_end());
  EXPECT_EQ(job.status().value, 1500) << job.status().reason;
  EXPECT_NEAR(job.status().estimate.energy_pct, energy_pct(1500), 0.5);
  job.gpus.away = "no agent responds";
  job.gpus.value = 0;
  job.run(100);
  EXPECT_EQ(job.status().state, PointSearchState::found) << "a point that was found is waited for";
  job.gpus.away.clear();
  job.run(2);
  EXPECT_EQ(job.gpus.value, 1500);
}

TEST(PointSearch, IsCutOffWhenTheAgentStaysAway) {
  Job job(options(25));
  job.run(25);
  job.gpus.away = "no agent responds";
  job.run(80);
  EXPECT_EQ(job.status().state, PointSearchState::cut_off);
  EXPECT_THAT(job.status().reason, HasSubstr("no agent responds"));
  EXPECT_THAT(job.said, SizeIs(1));
}

TEST(PointSearch, IsCutOffWhenAnotherProgramTakesTheGpu) {
  Job job(options(25));
  job.run(25);
  job.gpus.refusal = "another program sets GPU-1";
  job.run(2);
  EXPECT_EQ(job.status().state, PointSearchState::cut_off);
  EXPECT_THAT(job.status().reason, HasSubstr("another program sets GPU-1"));
  EXPECT_EQ(job.gpus.value, 0);
  ASSERT_THAT(job.said, SizeIs(1));
  EXPECT_THAT(job.said.front(), HasSubstr("another program sets GPU-1"));
}

TEST(PointSearch, GivesUpAPointThatIsTakenFromIt) {
  Job job(options(25));
  ASSERT_TRUE(job.run_to_end());
  ASSERT_EQ(job.status().state, PointSearchState::found);
  job.gpus.refusal = "the lease of GPU-1 has ended";
  job.run(2);
  EXPECT_EQ(job.status().state, PointSearchState::cut_off);
  ASSERT_THAT(job.said, SizeIs(2));
  EXPECT_THAT(job.said.back(), HasSubstr("is given up: the lease of GPU-1 has ended"));
  job.gpus.refusal.clear();
  job.run(10);
  EXPECT_EQ(job.gpus.value, 0) << "an administrator's word stands";
}

TEST(PointSearch, WaitsForGpusThatAnotherProcessHoldsButNotForEver) {
  Job patient(options(25));
  patient.gpus.holder = "process 7 holds this GPU";
  patient.run(30);
  EXPECT_EQ(patient.status().state, PointSearchState::waiting);
  EXPECT_THAT(patient.status().reason, HasSubstr("process 7"));
  patient.gpus.holder.clear();
  ASSERT_TRUE(patient.run_to_end());
  EXPECT_EQ(patient.status().state, PointSearchState::found);

  Job in_vain(options(25));
  in_vain.gpus.holder = "process 7 holds this GPU";
  in_vain.run(70);
  EXPECT_EQ(in_vain.status().state, PointSearchState::cut_off);
  EXPECT_EQ(in_vain.gpus.sets, 0);
}

TEST(PointSearch, IsCutOffWithoutEnergy) {
  Job job(options(25));
  job.run(25);
  job.counts_energy = false;
  job.run(25);
  EXPECT_EQ(job.status().state, PointSearchState::cut_off);
  EXPECT_THAT(job.status().reason, HasSubstr("no time or energy"));
  EXPECT_EQ(job.gpus.value, 0);
}

TEST(PointSearch, CountsNoIterationWithAPauseInIt) {
  Job job(options(25));
  for (int i = 1; i < 400 && !job.is_over(); ++i) job.run_iteration(i % 10 == 0 ? 4 : 0);
  EXPECT_EQ(job.status().value, 1500) << job.status().reason;
  EXPECT_NEAR(job.status().estimate.energy_pct, energy_pct(1500), 0.5);
  EXPECT_NEAR(job.status().estimate.slowdown_pct, slowdown_pct(1500), 0.5);
}

TEST(PointSearch, LeavesOutItsOwnPointsThatTheAgentDoesNotAllow) {
  PointSearchOptions own = options(100, {kHighestMhz});
  own.choose = [](const FullSpeed& seen) {
    EXPECT_NEAR(seen.power_w, power_w(kHighestMhz), 40);
    return std::vector<double>{kHighestMhz, 1500, 1200};
  };
  Job job(own);
  job.gpus.least = 1300;
  ASSERT_TRUE(job.run_to_end());
  EXPECT_EQ(job.status().value, 1500) << job.status().reason;

  Job named(options(100));
  named.gpus.least = 1300;
  named.run(3);
  EXPECT_EQ(named.status().state, PointSearchState::cut_off) << "the user has named it";
  EXPECT_THAT(named.status().reason, HasSubstr("1200 MHz: outside"));
}

TEST(PointSearch, ChoosesPointsOnceTheJobHasRunAtFullSpeedWithTheAgentThere) {
  PointSearchOptions own = options(25, {kHighestMhz});
  int chosen = 0;
  own.choose = [&chosen](const FullSpeed& /*seen*/) {
    ++chosen;
    return std::vector<double>{kHighestMhz, 1500};
  };
  Job job(own);
  job.run(3);
  EXPECT_EQ(chosen, 0);
  job.gpus.away = "no agent responds";
  job.run(10);
  EXPECT_EQ(job.status().state, PointSearchState::waiting);
  job.gpus.away.clear();
  ASSERT_TRUE(job.run_to_end());
  EXPECT_EQ(job.status().value, 1500) << job.status().reason;
  EXPECT_EQ(chosen, 1);

  PointSearchOptions none = options(25, {kHighestMhz});
  none.choose = [](const FullSpeed& /*seen*/) -> std::vector<double> { throw InputError("name the operating points"); };
  Job without(none);
  without.run(10);
  EXPECT_EQ(without.status().state, PointSearchState::cut_off);
  EXPECT_THAT(without.status().reason, HasSubstr("name the operating points"));
  EXPECT_EQ(without.gpus.value, 0);
}

TEST(PointSearch, RecordsWhatGivesTheSameDecisionsAgain) {
  const TemporaryFolder folder;
  PointSearchOptions recorded = options(25);
  recorded.record = folder.path() / "search.jsonl";
  Job job(recorded);
  ASSERT_TRUE(job.run_to_end());
  job.end();
  const auto records = adapt::read_change_records(read_file(recorded.record), "search.jsonl");
  ASSERT_THAT(records, SizeIs(1));
  const auto decisions = adapt::replay(records.front());
  ASSERT_EQ(decisions.size(), records.front().steps.size());
  std::size_t all = 0;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    EXPECT_EQ(decisions[i], records.front().steps[i].decisions) << i;
    all += decisions[i].size();
  }
  EXPECT_GE(all, 3U) << "begun, dropped, adopted";
}

TEST(PointSearch, BeginsAnewWhenTheWorkIsAnother) {
  const TemporaryFolder folder;
  PointSearchOptions recorded = options(25);
  recorded.record = folder.path() / "search.jsonl";
  Job job(recorded);
  ASSERT_TRUE(job.run_to_end());
  ASSERT_EQ(job.status().state, PointSearchState::found);
  job.work = 3;
  job.run(22);
  EXPECT_EQ(job.status().state, PointSearchState::searching);
  EXPECT_EQ(job.gpus.value, kHighestMhz);
  ASSERT_TRUE(job.run_to_end());
  EXPECT_EQ(job.status().value, 1500);
  job.end();
  EXPECT_THAT(adapt::read_change_records(read_file(recorded.record), "search.jsonl"), SizeIs(2));
}

TEST(PointSearch, RefusesOptionsAtOnce) {
  EXPECT_THROW(Job(options(25, {1980})), InputError);
  EXPECT_THROW(Job(options(-1)), InputError);
  PointSearchOptions elsewhere = options(25);
  elsewhere.record = "/no/such/folder/record";
  EXPECT_THROW(Job{elsewhere}, InputError);
}

}  // namespace

}  // namespace lowgear::client
