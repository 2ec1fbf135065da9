#include "agent/writing/clock_governor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "base/core/temporary_folder.h"
#include "hardware/gpu/fake_gpu.h"

namespace lowgear::agent {

namespace {

class ClockLogTest : public testing::Test {
 protected:
  [[nodiscard]] ClockLog make(std::size_t max_bytes = ClockLog::kMaxBytes) {
    return {file_, [this](const std::string& problem) { problems_.push_back(problem); }, max_bytes};
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "clocks/GPU-0.freqevents.csv";
  std::vector<std::string> problems_;
};

TEST_F(ClockLogTest, HasARowFromTheReturnOfOneCallToTheNextCall) {
  {
    ClockLog log = make();
    log.set(1410, 100, 130);
    log.set(900, 500, 520);
    log.ended(800);
    log.ended(900);
    log.set(1200, 1000, 1010);
    log.ended(1500);
  }
  EXPECT_EQ(read_file(file_), "freq,start,end\n1410,130,500\n900,520,800\n1200,1010,1500\n");
  EXPECT_TRUE(problems_.empty());
}

TEST_F(ClockLogTest, ContinuesInTheFileOfAnEarlierRun) {
  for (const int clock_mhz : {1410, 900}) {
    ClockLog log = make();
    log.set(clock_mhz, 1, 2);
    log.ended(3);
  }
  EXPECT_EQ(read_file(file_), "freq,start,end\n1410,2,3\n900,2,3\n");
}

TEST_F(ClockLogTest, EndsTheLastRowWithItself) {
  {
    ClockLog log = make();
    log.set(1410, 1, 2);
  }
  EXPECT_THAT(read_file(file_), testing::StartsWith("freq,start,end\n1410,2,1"));
}

TEST_F(ClockLogTest, BeginsANewFileWhereOneIsFull) {
  ClockLog log = make(20);
  for (int time = 0; time < 3; ++time) {
    log.set(1410, time, time);
    log.ended(time);
  }
  EXPECT_EQ(read_file(file_), "freq,start,end\n1410,2,2\n");
  EXPECT_EQ(read_file(file_.string() + ".old"), "freq,start,end\n1410,1,1\n");
}

TEST_F(ClockLogTest, ReportsOnceWhatCannotBeWritten) {
  std::filesystem::create_directories(file_);  // a folder in its place
  ClockLog log = make();
  for (int time = 0; time < 3; ++time) {
    log.set(1410, time, time);
    log.ended(time);
  }
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_THAT(problems_[0], testing::HasSubstr("clock changes cannot be logged"));
}

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

/// A disk that may be full.
class TestStorage final : public JournalStorage {
 public:
  explicit TestStorage(bool& full) : full_(&full) {}
  [[nodiscard]] std::optional<std::string> read() override { return std::nullopt; }
  void replace(std::string_view) override {
    if (*full_) throw Error("journal: No space left on device");
  }

 private:
  bool* full_;
};

class ClockGovernorTest : public testing::Test {
 protected:
  std::unique_ptr<ClockGovernor> make(bool dry_run = false, std::optional<double> safe_power_w = {}) {
    ClockGovernorOptions options;
    options.dry_run = dry_run;
    options.safe_power_w = safe_power_w;
    options.clock_log = clock_log_;
    options.note = [this](std::string_view text) { notes_.emplace_back(text); };
    options.now = [this] { return now_; };
    return std::make_unique<ClockGovernor>(std::make_unique<gpu::FakeGpuControl>(gpu_), journal_, std::move(options));
  }
  GpuReading busy_at(int clock_mhz, std::uint64_t throttle = 0) {
    GpuReading reading;
    reading.sm_clock_mhz = clock_mhz;
    reading.gpu_utilisation_percent = 100;
    reading.throttle_reasons = gpu::ThrottleReasons{.bits = throttle};
    return reading;
  }

  /// Read just now.
  [[nodiscard]] ReadPowerLimit limit_of(double power_limit_w) const {
    return {.power_limit_w = power_limit_w, .asked_at = now_};
  }

  bool full_ = false;
  gpu::FakeGpu gpu_;
  std::shared_ptr<Journal> journal_ = std::make_shared<Journal>(std::make_unique<TestStorage>(full_));
  std::chrono::steady_clock::time_point now_{1h};
  std::vector<std::string> notes_;
  std::filesystem::path clock_log_;
};

TEST_F(ClockGovernorTest, LogsClocksWithTheTimesOfTheDriversCalls) {
  const TemporaryFolder folder;
  clock_log_ = folder.path();
  const std::filesystem::path file = folder / (gpu_.identity().uuid + ".freqevents.csv");
  const auto rows = [&file] {
    const std::string text = read_file(file);
    return std::count(text.begin(), text.end(), '\n') - 1;
  };
  const auto governor = make();
  (void)governor->follow(1500);
  (void)governor->follow(1005);
  governor->apply(gpu::SetPowerLimit{400});
  governor->suspend();
  EXPECT_EQ(rows(), 2);
  (void)governor->follow(1500);
  governor->restore();
  EXPECT_EQ(rows(), 3);
  const CsvTable table(read_file(file), "freqevents");
  EXPECT_EQ(table.number(1, table.column("freq")), 1005);
  EXPECT_LE(table.number(0, table.column("end")), table.number(1, table.column("start"))) << "the call lies between";
  (void)make(/*dry_run=*/true)->follow(900);
  EXPECT_EQ(rows(), 3) << "nothing was set";
}

TEST_F(ClockGovernorTest, WritesAClockOnce) {
  const auto governor = make();
  EXPECT_TRUE(governor->follow(1500));
  EXPECT_FALSE(governor->follow(1500));
  EXPECT_TRUE(governor->follow(1005));
  EXPECT_THAT(gpu_.control_calls(), ElementsAre("lock SM clocks to 1500-1500 MHz", "lock SM clocks to 1005-1005 MHz"));
  EXPECT_EQ(governor->status().clock_writes, 2U);
  EXPECT_EQ(governor->status().clock_state, ClockState::leased);
}

TEST_F(ClockGovernorTest, FollowsThePowerLimitsOfAPlan) {
  const auto governor = make();
  EXPECT_TRUE(governor->follow_power_limit(400));
  EXPECT_FALSE(governor->follow_power_limit(400)) << "it is set already";
  EXPECT_TRUE(governor->follow_power_limit(350));
  EXPECT_THAT(gpu_.control_calls(), ElementsAre(HasSubstr("400 W"), HasSubstr("350 W")));
  governor->restore();
  EXPECT_EQ(gpu_.settings(), gpu::FakeSettings{});
  EXPECT_TRUE(governor->follow_power_limit(350)) << "the next lease sets it anew";
}

TEST_F(ClockGovernorTest, SetsThePowerLimitOfBeforeWhereAPlanNamesNone) {
  const auto governor = make();
  EXPECT_FALSE(governor->follow_power_limit({})) << "none was set";
  governor->apply(gpu::SetPowerLimit{500});
  EXPECT_FALSE(governor->follow_power_limit({})) << "that was no plan's";
  EXPECT_TRUE(governor->follow_power_limit(400));
  EXPECT_TRUE(governor->follow_power_limit(350));
  EXPECT_TRUE(governor->follow_power_limit({}));
  EXPECT_FALSE(governor->follow_power_limit({}));
  EXPECT_THAT(gpu_.control_calls(),
              ElementsAre(HasSubstr("500 W"), HasSubstr("400 W"), HasSubstr("350 W"), HasSubstr("500 W")));
}

TEST_F(ClockGovernorTest, SetsTheGpusOwnPowerLimitAfterAPlan) {
  const auto governor = make();
  const gpu::FakeSettings own = gpu_.settings();
  EXPECT_TRUE(governor->follow_power_limit(400));
  EXPECT_TRUE(governor->follow_power_limit({}));
  EXPECT_EQ(gpu_.settings(), own);
}

TEST_F(ClockGovernorTest, IsInTheJournalBeforeItWrites) {
  const auto governor = make();
  full_ = true;
  EXPECT_FALSE(governor->follow(1500));
  EXPECT_TRUE(gpu_.control_calls().empty()) << "no write without a journal";
  EXPECT_THAT(governor->status().problem, HasSubstr("No space left"));
  EXPECT_EQ(governor->status().clock_state, ClockState::failed);
  EXPECT_THROW(governor->apply(gpu::SetPowerLimit{300}), Error);
  EXPECT_TRUE(gpu_.control_calls().empty());
  full_ = false;
  now_ += 2s;
  EXPECT_TRUE(governor->follow(1500));
  EXPECT_TRUE(journal_->changed(gpu_.identity().uuid));
}

TEST_F(ClockGovernorTest, RestoresEverythingAndStrikesItOut) {
  const auto governor = make();
  governor->apply(gpu::LockSmClocks{345, 1005});
  governor->apply(gpu::SetPowerLimit{400});
  governor->apply(gpu::SetPersistenceMode{false});
  governor->restore();
  EXPECT_EQ(gpu_.settings(), gpu::FakeSettings{});
  EXPECT_EQ(governor->status().clock_state, ClockState::restored);
  EXPECT_FALSE(governor->status().requested_max_mhz);
  EXPECT_TRUE(journal_->changed().empty());
  const std::size_t calls = gpu_.control_calls().size();
  governor->restore();
  EXPECT_EQ(gpu_.control_calls().size(), calls) << "there is nothing to restore";
}

TEST_F(ClockGovernorTest, SuspendsTheSmClockAndKeepsEverythingElse) {
  const auto governor = make();
  ASSERT_TRUE(governor->follow(1005));
  governor->apply(gpu::LockMemoryClocks{1593, 1593});
  governor->apply(gpu::SetPowerLimit{400});
  governor->suspend();
  EXPECT_EQ(gpu_.settings().max_sm_clock_mhz, gpu::FakeSettings{}.max_sm_clock_mhz);
  EXPECT_EQ(gpu_.settings().max_memory_clock_mhz, 1593);
  EXPECT_EQ(gpu_.settings().power_limit_w, 400);
  EXPECT_FALSE(governor->status().requested_max_mhz);
  EXPECT_TRUE(journal_->changed(gpu_.identity().uuid)) << "the rest is still to be put back";
  const std::size_t calls = gpu_.control_calls().size();
  governor->suspend();
  EXPECT_EQ(gpu_.control_calls().size(), calls) << "no clock is locked";
  EXPECT_TRUE(governor->follow(1005));
  governor->restore();
  EXPECT_EQ(gpu_.settings(), gpu::FakeSettings{});
}

TEST_F(ClockGovernorTest, NamesTheClockThatItCouldNotSuspend) {
  const auto governor = make();
  ASSERT_TRUE(governor->follow(1005));
  gpu_.fail("reset SM clocks", gpu::GpuErrorCode::driver_error);
  governor->suspend();
  EXPECT_EQ(governor->status().clock_state, ClockState::failed);
  EXPECT_EQ(governor->status().requested_max_mhz, 1005);
  EXPECT_FALSE(governor->status().problem.empty());
  governor->suspend();
  EXPECT_EQ(governor->status().clock_state, ClockState::leased);
  EXPECT_FALSE(governor->status().requested_max_mhz);
  EXPECT_TRUE(governor->status().problem.empty());
}

TEST_F(ClockGovernorTest, LocksAgainAfterASuspensionThatFailed) {
  const auto governor = make();
  ASSERT_TRUE(governor->follow(1005));
  gpu_.fail("reset SM clocks", gpu::GpuErrorCode::driver_error);
  governor->suspend();
  EXPECT_TRUE(governor->follow(1005)) << "what the driver made of the call is not known";
  EXPECT_EQ(governor->status().clock_state, ClockState::leased);
}

TEST_F(ClockGovernorTest, SuspendsNothingThatItDidNotWrite) {
  const auto governor = make();
  governor->suspend();
  EXPECT_TRUE(gpu_.control_calls().empty());
  EXPECT_EQ(governor->status().clock_state, ClockState::untouched);
}

TEST_F(ClockGovernorTest, DoesNotTouchAGpuThatItNeverWroteTo) {
  const auto governor = make();
  governor->restore();
  EXPECT_TRUE(gpu_.control_calls().empty());
  EXPECT_EQ(governor->status().clock_state, ClockState::untouched);
}

TEST_F(ClockGovernorTest, KeepsInTheJournalWhatItCouldNotRestore) {
  const auto governor = make();
  ASSERT_TRUE(governor->follow(1500));
  gpu_.fail("reset SM clocks", gpu::GpuErrorCode::driver_error);
  governor->restore();
  EXPECT_EQ(governor->status().clock_state, ClockState::failed);
  EXPECT_TRUE(journal_->changed(gpu_.identity().uuid));
  governor->restore();
  EXPECT_EQ(governor->status().clock_state, ClockState::restored);
  EXPECT_EQ(gpu_.settings(), gpu::FakeSettings{});
}

TEST_F(ClockGovernorTest, AsksToRestoreWhatTheJournalStillNames) {
  journal_->record_change(
      {.uuid = gpu_.identity().uuid, .pci_address = "", .power_limit_w = 700, .persistence_mode = {}});
  const auto governor = make();
  EXPECT_EQ(governor->status().clock_state, ClockState::failed);
  EXPECT_THAT(governor->status().problem, HasSubstr("left changed"));
  governor->restore();
  EXPECT_EQ(governor->status().clock_state, ClockState::restored);
  EXPECT_THAT(governor->status().problem, testing::IsEmpty());
  EXPECT_THAT(journal_->changed(), testing::IsEmpty());
}

TEST_F(ClockGovernorTest, KnowsWhatIsInForceAfterARefusal) {
  const auto governor = make();
  gpu_.fail("set the power limit", gpu::GpuErrorCode::invalid_value);
  EXPECT_THROW(governor->apply(gpu::SetPowerLimit{300}), gpu::GpuError);
  EXPECT_EQ(governor->status().clock_state, ClockState::untouched);
  ASSERT_TRUE(governor->follow(1500));
  gpu_.fail("set the power limit", gpu::GpuErrorCode::no_permission);
  EXPECT_THROW(governor->apply(gpu::SetPowerLimit{300}), gpu::GpuError);
  EXPECT_EQ(governor->status().clock_state, ClockState::leased);
  EXPECT_TRUE(governor->status().problem.empty()) << "who has asked hears of it";
  EXPECT_EQ(governor->status().clock_write_errors, 2U);
  EXPECT_FALSE(governor->follow(1500)) << "it is in force";
  gpu_.fail("lock SM clocks", gpu::GpuErrorCode::invalid_value);
  EXPECT_FALSE(governor->follow(1005));
  EXPECT_EQ(governor->status().clock_state, ClockState::leased);
  EXPECT_FALSE(governor->status().problem.empty()) << "only the status reports it";
  now_ += 2s;
  EXPECT_TRUE(governor->follow(1005));
  EXPECT_TRUE(governor->status().problem.empty());
  governor->restore();
  EXPECT_EQ(gpu_.settings(), gpu::FakeSettings{});
}

TEST_F(ClockGovernorTest, IsNotSureAfterAnyOtherError) {
  const auto governor = make();
  ASSERT_TRUE(governor->follow(1500));
  gpu_.fail("set the power limit", gpu::GpuErrorCode::driver_error);
  EXPECT_THROW(governor->apply(gpu::SetPowerLimit{300}), gpu::GpuError);
  EXPECT_EQ(governor->status().clock_state, ClockState::failed);
}

TEST_F(ClockGovernorTest, WaitsAfterAWriteThatFailed) {
  const auto governor = make();
  gpu_.fail("lock SM clocks", gpu::GpuErrorCode::driver_error, -1);
  EXPECT_FALSE(governor->follow(1500));
  EXPECT_FALSE(governor->follow(1500));
  EXPECT_EQ(gpu_.control_calls().size(), 1U);
  gpu_.stop_failing();
  now_ += 2s;
  EXPECT_TRUE(governor->follow(1500));
  EXPECT_EQ(governor->status().clock_write_errors, 1U);
  EXPECT_TRUE(governor->status().problem.empty());
}

TEST_F(ClockGovernorTest, LeavesTheClocksOfAnotherProcessAlone) {
  const auto governor = make();
  ASSERT_TRUE(governor->follow(1005));
  now_ += 2s;
  governor->observe(busy_at(1980), std::nullopt);
  EXPECT_EQ(governor->status().clock_state, ClockState::leased) << "one reading may be old";
  now_ += 1500ms;
  governor->observe(busy_at(1980), std::nullopt);
  EXPECT_EQ(governor->status().clock_state, ClockState::foreign);
  EXPECT_THAT(governor->status().problem, HasSubstr("another program sets its clocks"));
  EXPECT_FALSE(governor->follow(1500));
  EXPECT_THROW(governor->apply(gpu::LockSmClocks{345, 345}), GpuBusy);
  governor->suspend();
  EXPECT_EQ(gpu_.control_calls().size(), 1U);
  governor->restore();
  EXPECT_EQ(gpu_.settings(), gpu::FakeSettings{}) << "the lease's end puts everything back";
  EXPECT_TRUE(governor->follow(1500));
}

TEST_F(ClockGovernorTest, TakesNothingElseForAnotherProcess) {
  const auto governor = make();
  ASSERT_TRUE(governor->follow(1500));
  now_ += 2s;
  for (int i = 0; i < 5; ++i) {
    now_ += 1s;
    governor->observe(busy_at(1500), std::nullopt);
    governor->observe(busy_at(1005, 0x4), std::nullopt);  // held down by the power cap
    GpuReading idle = busy_at(345);
    idle.gpu_utilisation_percent = 0;
    governor->observe(idle, std::nullopt);
    governor->observe(GpuReading{}, std::nullopt);
  }
  EXPECT_EQ(governor->status().clock_state, ClockState::leased);
}

TEST_F(ClockGovernorTest, RestoresNoMorePowerThanIsSafe) {
  const auto governor = make(false, 350);
  governor->apply(gpu::SetPowerLimit{400});
  governor->restore();
  EXPECT_EQ(gpu_.power_limits().current_w, 350);
  EXPECT_EQ(governor->status().clock_state, ClockState::restored);
  governor->apply(gpu::SetPowerLimit{300});
  governor->restore();
  EXPECT_EQ(gpu_.power_limits().current_w, 350);
}

TEST_F(ClockGovernorTest, LeavesThePowerLimitOfAnotherProcessAlone) {
  const auto governor = make();
  ASSERT_TRUE(governor->follow(1500));
  now_ += 5s;
  governor->observe({}, limit_of(400));
  now_ += 5s;
  governor->observe({}, limit_of(400));
  EXPECT_EQ(governor->status().clock_state, ClockState::leased) << "no limit was set here";
  governor->apply(gpu::SetPowerLimit{300});
  governor->observe({}, limit_of(400));
  now_ += 500ms;
  governor->observe({}, limit_of(400));  // read before it was set
  now_ += 5s;
  governor->observe({}, limit_of(300.4));
  governor->observe({}, std::nullopt);
  now_ += 5s;
  governor->observe({}, limit_of(400));
  EXPECT_EQ(governor->status().clock_state, ClockState::leased) << "not after one look";
  now_ += 1s;
  governor->observe({}, limit_of(400));
  EXPECT_EQ(governor->status().clock_state, ClockState::foreign);
  EXPECT_THAT(governor->status().problem, HasSubstr("its power limit is 400 W though 300 W were set"));
  EXPECT_THROW(governor->apply(gpu::SetPowerLimit{300}), GpuBusy);
  governor->restore();
  EXPECT_EQ(gpu_.settings(), gpu::FakeSettings{});
  ASSERT_TRUE(governor->follow(1005));
  now_ += 5s;
  governor->observe({}, limit_of(400));
  now_ += 5s;
  governor->observe({}, limit_of(400));
  EXPECT_EQ(governor->status().clock_state, ClockState::leased) << "the next lease sets none";
}

TEST_F(ClockGovernorTest, TakesNoLimitForAnothersThatWasReadBeforeItsOwnWasSet) {
  const auto governor = make();
  const ReadPowerLimit before = limit_of(700);
  now_ += 100ms;
  governor->apply(gpu::SetPowerLimit{300});
  for (int second = 0; second < 10; ++second) {
    now_ += 1s;
    governor->observe({}, before);
  }
  EXPECT_EQ(governor->status().clock_state, ClockState::leased);
}

TEST_F(ClockGovernorTest, ADryRunOnlyTalks) {
  const auto governor = make(true);
  EXPECT_TRUE(governor->follow(1500));
  governor->apply(gpu::SetPowerLimit{300});
  governor->restore();
  EXPECT_TRUE(gpu_.control_calls().empty());
  EXPECT_TRUE(journal_->changed().empty());
  ASSERT_EQ(notes_.size(), 3U);
  EXPECT_THAT(notes_[0], HasSubstr("would lock SM clocks to 1500-1500 MHz"));
  EXPECT_THAT(notes_[2], HasSubstr("would restore"));
}

}  // namespace

}  // namespace lowgear::agent
