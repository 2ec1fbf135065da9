#include "training/trainer/model/dropout.h"

#include <gtest/gtest.h>

namespace lowgear::trainer {
namespace {

constexpr double kShare = 0.3;

at::Tensor masked(const SampleKeys& samples, const at::Tensor& input, const Dropout::Place& place = {}) {
  Dropout dropout;
  const Dropout::Guard guard(dropout, samples);
  return dropout(input, kShare, place);
}

TEST(Dropout, SetsItsShareToZeroAndKeepsTheMean) {
  const at::Tensor output = masked({sample_key(1, 0), sample_key(1, 1)}, at::ones({2, 200, 500}));
  EXPECT_NEAR(output.eq(0).to(at::kDouble).mean().item<double>(), kShare, 0.005);
  EXPECT_NEAR(output.max().item<double>(), 1 / (1 - kShare), 1e-6);
  EXPECT_NEAR(output.mean().item<double>(), 1, 0.01);
}

TEST(Dropout, DoesNothingOutsideOfTraining) {
  const at::Tensor input = at::rand({2, 8});
  EXPECT_TRUE(at::equal(masked({}, input), input));
  Dropout dropout;
  { const Dropout::Guard guard(dropout, {1, 2}); }
  EXPECT_FALSE(dropout.drops(kShare));
}

TEST(Dropout, FollowsFromTheSampleWhereverItStands) {
  const at::Tensor both = masked({sample_key(1, 4), sample_key(1, 5)}, at::ones({2, 300}));
  EXPECT_TRUE(at::equal(masked({sample_key(1, 5)}, at::ones({1, 300}))[0], both[1]));
  EXPECT_TRUE(at::equal(masked({sample_key(1, 5), sample_key(1, 4)}, at::ones({2, 300}))[1], both[0]));
}

TEST(Dropout, OfAPartIsThatOfTheWhole) {
  const SampleKeys samples = {sample_key(3, 0), sample_key(3, 1)};
  const at::Tensor whole = masked(samples, at::ones({2, 4, 25}));
  const at::Tensor part = masked(samples, at::ones({2, 2, 25}), {.first = 2 * 25});
  EXPECT_TRUE(at::equal(part, whole.narrow(1, 2, 2)));
}

TEST(Dropout, OfAPartOfTheLastDimensionIsThatOfTheWhole) {
  const SampleKeys samples = {sample_key(3, 0), sample_key(3, 1)};
  const at::Tensor whole = masked(samples, at::ones({2, 4, 75}));
  for (const std::int64_t part : {0, 1, 2}) {
    const at::Tensor own = masked(samples, at::ones({2, 4, 25}), {.parts = 3, .part = part});
    EXPECT_TRUE(at::equal(own, whole.narrow(2, 25 * part, 25))) << part;
  }
}

/// Two masks that are independent differ in 2 p (1 - p) of the places.
TEST(Dropout, DiffersBySeedSampleLayerAndSite) {
  const at::Tensor input = at::ones({1, 100'000});
  const at::Tensor mask = masked({sample_key(1, 0)}, input);
  for (const at::Tensor& other :
       {masked({sample_key(2, 0)}, input), masked({sample_key(1, 1)}, input),
        masked({sample_key(1, 0)}, input, {.layer = 1}),
        masked({sample_key(1, 0)}, input, {.site = DropoutSite::mlp_output}),
        masked({sample_key(1, 0)}, input, {.first = 1}), masked({sample_key(1, 0)}, input, {.layer = -1})}) {
    EXPECT_NEAR(other.ne(mask).to(at::kDouble).mean().item<double>(), 2 * kShare * (1 - kShare), 0.01);
  }
}

}  // namespace
}  // namespace lowgear::trainer
