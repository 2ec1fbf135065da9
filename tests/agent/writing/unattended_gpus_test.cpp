#include "agent/writing/unattended_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "agent/config/config.h"
#include "agent/damaged_journal.h"
#include "agent/writing/restore.h"
#include "base/core/error.h"
#include "base/core/eventually.h"
#include "hardware/gpu/fake_gpu.h"

namespace lowgear::agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string uuid(int gpu) { return gpu::FakeGpu(gpu).identity().uuid; }

std::vector<std::string> names(const std::vector<UnattendedGpu>& gpus) {
  std::vector<std::string> names;
  for (const UnattendedGpu& gpu : gpus) names.push_back(gpu.name);
  return names;
}

/// A journal that names a GPU whose power limit was 700 W, and is 400 W since.
class UnattendedGpusTest : public testing::Test {
 protected:
  UnattendedGpusTest() {
    gpu::FakeGpuControl control(gpu());
    journal_->record_change(original_state(control));
    control.apply(gpu::SetPowerLimit{400});
    options_.open = [this]() -> std::unique_ptr<gpu::GpuControlSystem> {
      ++opened_;
      if (!answers_) throw gpu::GpuError(gpu::GpuErrorCode::gpu_lost, "the GPU is lost");
      return std::make_unique<SharedFakes>(system_);
    };
    options_.retry_after = 24h;
  }

  /// The machine as it is opened anew: its GPUs are those of the test.
  class SharedFakes final : public gpu::GpuControlSystem {
   public:
    explicit SharedFakes(std::shared_ptr<gpu::FakeGpuSystem> fakes) : fakes_(std::move(fakes)) {}
    [[nodiscard]] const std::vector<std::unique_ptr<gpu::Gpu>>& gpus() const override { return fakes_->gpus(); }
    [[nodiscard]] const std::string& driver_version() const override { return fakes_->driver_version(); }
    [[nodiscard]] bool simulated() const override { return false; }
    [[nodiscard]] std::unique_ptr<gpu::GpuControl> control(std::string_view name) override {
      return fakes_->control(name);
    }

   private:
    std::shared_ptr<gpu::FakeGpuSystem> fakes_;
  };

  [[nodiscard]] gpu::FakeGpu& gpu() { return system_->fake(1); }
  [[nodiscard]] std::unique_ptr<UnattendedGpus> attend(bool configured) {
    return std::make_unique<UnattendedGpus>(
        std::vector<UnattendedGpu>{{.name = uuid(1), .configured = configured, .left_changed = true, .problem = "?"}},
        journal_, options_);
  }

  std::shared_ptr<gpu::FakeGpuSystem> system_ = std::make_shared<gpu::FakeGpuSystem>(2);
  std::shared_ptr<Journal> journal_ = std::make_shared<Journal>(discarding_journal());
  std::atomic<bool> answers_{true};
  std::atomic<int> opened_{0};
  UnattendedGpusOptions options_;
};

TEST_F(UnattendedGpusTest, TriesAgainUntilItIsRestored) {
  answers_ = false;
  options_.retry_after = 1ms;
  const auto unattended = attend(false);
  ASSERT_TRUE(eventually([&] { return opened_ > 2; }));
  EXPECT_THAT(names(unattended->list()), ElementsAre(uuid(1)));
  EXPECT_TRUE(journal_->changed(uuid(1)));
  answers_ = true;
  ASSERT_TRUE(eventually([&] { return unattended->list().empty(); }));
  EXPECT_FALSE(journal_->changed(uuid(1)));
  EXPECT_EQ(gpu().settings(), gpu::FakeSettings{});
}

TEST_F(UnattendedGpusTest, TriesAtOnceWhenItIsAsked) {
  std::vector<std::string> notes;
  options_.note = [&](std::string_view text) { notes.emplace_back(text); };
  answers_ = false;
  const auto unattended = attend(false);
  unattended->restore().get();
  ASSERT_EQ(unattended->list().size(), 1U);
  EXPECT_TRUE(unattended->list()[0].left_changed);
  EXPECT_EQ(unattended->list()[0].problem,
            "GPU " + uuid(1) + ": was left changed, and is not restored: the GPU is lost");
  EXPECT_THAT(notes, IsEmpty());
  answers_ = true;
  gpu().fail("reset SM clocks", gpu::GpuErrorCode::driver_error);
  unattended->restore().get();
  EXPECT_THAT(unattended->list().at(0).problem, HasSubstr("reset SM clocks"));
  EXPECT_TRUE(journal_->changed(uuid(1)));
  unattended->restore().get();
  EXPECT_THAT(unattended->list(), IsEmpty());
  EXPECT_THAT(notes, ElementsAre("GPU " + uuid(1) + ": restored"));
  EXPECT_THAT(system_->fake(0).control_calls(), IsEmpty());
}

TEST_F(UnattendedGpusTest, ContinuesToNameAConfiguredGpuThatItRestored) {
  const auto unattended = attend(true);
  unattended->restore().get();
  ASSERT_EQ(unattended->list().size(), 1U);
  EXPECT_FALSE(unattended->list()[0].left_changed);
  EXPECT_THAT(unattended->list()[0].problem, HasSubstr("restart the agent"));
  EXPECT_EQ(gpu().settings(), gpu::FakeSettings{});
}

TEST_F(UnattendedGpusTest, TellsOfADamagedJournal) {
  const UnattendedGpus unattended({}, std::make_shared<Journal>(damaged_journal()), options_);
  ASSERT_EQ(unattended.list().size(), 1U);
  EXPECT_TRUE(unattended.list()[0].left_changed);
  EXPECT_THAT(unattended.list()[0].problem, HasSubstr("the journal is damaged"));
}

TEST(FindUnattendedGpus, NamesWhatIsMissingAndWhatNobodyLooksAfter) {
  gpu::FakeGpuSystem system(2);
  Journal journal(discarding_journal());
  Config config;
  config.gpus = {uuid(0), "GPU-none", "0000:07:00.0", "GPU-none"};
  EXPECT_THAT(names(find_unattended_gpus(config, system, journal)), ElementsAre("GPU-none", "0000:07:00.0"));
  for (const int gpu : {0, 1, 6}) {  // controlled, there but not named, not there
    gpu::FakeGpu changed(gpu);
    gpu::FakeGpuControl control(changed);
    journal.record_change(original_state(control));
  }
  const std::vector<UnattendedGpu> unattended = find_unattended_gpus(config, system, journal);
  EXPECT_THAT(names(unattended), ElementsAre("GPU-none", uuid(6), uuid(1))) << "0000:07:00.0 is the one of the journal";
  EXPECT_FALSE(unattended[0].left_changed);
  EXPECT_TRUE(unattended[1].left_changed && unattended[1].configured);
  EXPECT_TRUE(unattended[2].left_changed && !unattended[2].configured);
}

TEST(FindUnattendedGpus, EveryGpuIncludesThoseThatDoNotAnswer) {
  gpu::FakeGpuSystem system(1);
  system.set_problems({"GPU number 1: handle: GPU is lost"});
  const Journal journal(discarding_journal());
  Config config;
  EXPECT_THAT(find_unattended_gpus(config, system, journal), IsEmpty());
  config.all_gpus = true;
  const std::vector<UnattendedGpu> unattended = find_unattended_gpus(config, system, journal);
  ASSERT_EQ(unattended.size(), 1U);
  EXPECT_EQ(unattended[0].name, "");
  EXPECT_THAT(unattended[0].problem, HasSubstr("number 1: handle: GPU is lost"));
}

}  // namespace
}  // namespace lowgear::agent
