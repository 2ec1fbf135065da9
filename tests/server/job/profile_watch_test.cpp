#include "server/job/profile_watch.h"

#include <gtest/gtest.h>

namespace lowgear::server {
namespace {

class ProfileWatchTest : public testing::Test {
 protected:
  /// Iterations in which the ranks take so many times as long as profiled.
  void train(int iterations, double first, double second) {
    for (int i = 0; i < iterations; ++i) {
      std::vector<RankIteration> measured;
      for (const double factor : {first, second}) {
        measured.push_back({.rank = static_cast<int>(measured.size()), .compute_time_s = factor, .expected_time_s = 1});
      }
      (void)watch.observe(measured, iteration++);
    }
  }
  /// Iterations of a drift until another profile is due; -1: none within `most`.
  int profiled_after(int most, double factor) {
    for (int i = 1; i <= most; ++i) {
      train(1, factor, factor);
      if (watch.outdated_profile(iteration - 1, now_s)) return i;
    }
    return -1;
  }

  double now_s = 1e9;
  std::int64_t iteration = 0;
  ProfileWatch watch{2};
};

TEST_F(ProfileWatchTest, FindsASlowRankAndItsEnd) {
  train(10, 1, 1);
  EXPECT_TRUE(watch.slow().empty());
  train(20, 1, 1.5);
  ASSERT_TRUE(watch.slow().contains(1));
  EXPECT_FALSE(watch.slow().contains(0));
  EXPECT_NEAR(watch.slow().at(1).factor, 1.5, 0.2);
  EXPECT_EQ(watch.slow().at(1).cause, "straggler");
  train(40, 1, 1);
  EXPECT_TRUE(watch.slow().empty());
}

TEST_F(ProfileWatchTest, ContinuesFromWhatWasStored) {
  train(30, 1, 1.5);
  Json state;
  watch.write_state(state);
  ProfileWatch restored(2);
  restored.restore(JsonView(state, "state"));
  ASSERT_TRUE(restored.slow().contains(1));
  watch = std::move(restored);
  train(40, 1, 1);  // the detector knew what to compare with
  EXPECT_TRUE(watch.slow().empty());
}

TEST_F(ProfileWatchTest, ForgetsARankAndEverythingWithAProfile) {
  train(30, 1, 1.5);
  watch.forget(1);
  EXPECT_TRUE(watch.slow().empty());
  train(30, 1, 1.5);
  EXPECT_TRUE(watch.slow().contains(1));
  watch.begin_profile(now_s);
  EXPECT_TRUE(watch.slow().empty());
}

TEST_F(ProfileWatchTest, RenewsAProfileOnceAnHourUnlessTheDriftLasts) {
  EXPECT_EQ(profiled_after(20, 1), -1);
  const int at_once = profiled_after(40, 1.2);
  ASSERT_GT(at_once, 0);
  watch.begin_profile(now_s);
  EXPECT_EQ(profiled_after(static_cast<int>(ProfileWatch::kLastingIterations), 1.2), -1);
  const int first = profiled_after(100, 1.2);
  ASSERT_GT(first, 0);
  watch.begin_profile(now_s);
  EXPECT_EQ(profiled_after(2 * static_cast<int>(ProfileWatch::kLastingIterations), 1.2), -1);  // twice as long
  watch.begin_profile(now_s);
  now_s += 3'601;
  EXPECT_EQ(profiled_after(40, 1.2), at_once);
}

}  // namespace
}  // namespace lowgear::server
