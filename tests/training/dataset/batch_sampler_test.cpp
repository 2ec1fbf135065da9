#include "training/dataset/batch_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::dataset {

namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kVocabulary = 65536;

/// Token i is i: what is read tells where it stood.
std::string counting_bytes(int tokens) {
  std::string bytes;
  for (int i = 0; i < tokens; ++i) {
    bytes.push_back(static_cast<char>(i & 0xFF));
    bytes.push_back(static_cast<char>(i >> 8));
  }
  return bytes;
}

class BatchSamplerTest : public ::testing::Test {
 protected:
  [[nodiscard]] BatchSampler sampler(const BatchSamplerOptions& options) const {
    return {TokenView(bytes_, "t.bin", kVocabulary, TokenType::uint16), options};
  }
  /// First tokens of all samples of some steps, as one process would read them.
  [[nodiscard]] static std::vector<std::int64_t> firsts(const BatchSampler& sampler, std::int64_t from,
                                                        std::int64_t to) {
    std::vector<std::int64_t> tokens;
    for (std::int64_t step = from; step < to; ++step) {
      for (std::int64_t i = 0; i < sampler.options().global_batch; ++i) {
        tokens.push_back(sampler.window(step, i) * sampler.options().sequence_length);
      }
    }
    return tokens;
  }

  std::string bytes_ = counting_bytes(1003);
};

TEST_F(BatchSamplerTest, ASampleIsAWindowAndItsLastTarget) {
  const BatchSampler batches = sampler({.sequence_length = 10, .global_batch = 4, .seed = 1});
  EXPECT_EQ(batches.window_count(), 100);
  EXPECT_EQ(batches.sample_tokens(), 11);
  std::vector<std::int64_t> tokens(4 * 11);
  batches.read(3, {.first = 0, .count = 4}, tokens);
  for (std::size_t sample = 0; sample < 4; ++sample) {
    const std::int64_t first = batches.window(3, static_cast<std::int64_t>(sample)) * 10;
    for (std::size_t i = 0; i < 11; ++i) {
      EXPECT_EQ(tokens[sample * 11 + i], first + static_cast<std::int64_t>(i));
    }
  }
}

TEST_F(BatchSamplerTest, AnEpochTakesEveryWindowOnce) {
  // 100 windows in batches of 8: epochs begin within batches.
  const BatchSampler batches = sampler({.sequence_length = 10, .global_batch = 8, .seed = 5});
  const std::vector<std::int64_t> taken = firsts(batches, 0, 50);
  std::vector<std::vector<std::int64_t>> epochs;
  for (std::size_t epoch = 0; epoch < 4; ++epoch) {
    const auto begin = taken.begin() + static_cast<std::ptrdiff_t>(epoch * 100);
    std::vector<std::int64_t> windows(begin, begin + 100);
    epochs.push_back(windows);
    std::ranges::sort(windows);
    for (std::int64_t i = 0; i < 100; ++i) ASSERT_EQ(windows[static_cast<std::size_t>(i)], i * 10);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST_F(BatchSamplerTest, AnySplitOverRanksGivesTheSameBatches) {
  const BatchSampler batches = sampler({.sequence_length = 10, .global_batch = 72, .seed = 9});
  std::vector<std::int64_t> whole(72 * 11);
  batches.read(17, {.first = 0, .count = 72}, whole);
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int microbatches : {1, 3}) {
      std::vector<std::int64_t> gathered;
      for (int rank = 0; rank < ranks; ++rank) {
        for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
          const BatchSlice slice = microbatch_slice(72, {ranks, rank, microbatches, microbatch});
          std::vector<std::int64_t> tokens(static_cast<std::size_t>(slice.count) * 11);
          // A rank's sampler is its own object.
          sampler(batches.options()).read(17, slice, tokens);
          gathered.insert(gathered.end(), tokens.begin(), tokens.end());
        }
      }
      EXPECT_EQ(gathered, whole) << ranks << " x " << microbatches;
    }
  }
}

TEST_F(BatchSamplerTest, ResumesWhereItWas) {
  const BatchSamplerOptions options{.sequence_length = 7, .global_batch = 5, .seed = 2};
  const std::vector<std::int64_t> through = firsts(sampler(options), 0, 100);
  std::vector<std::int64_t> resumed = firsts(sampler(options), 0, 43);
  const std::vector<std::int64_t> rest = firsts(sampler(options), 43, 100);
  resumed.insert(resumed.end(), rest.begin(), rest.end());
  EXPECT_EQ(resumed, through);
}

TEST_F(BatchSamplerTest, ContinuesAfterTheSameSampleWithAnotherBatch) {
  const BatchSamplerOptions options{.sequence_length = 7, .global_batch = 5, .seed = 2};
  const std::vector<std::int64_t> through = firsts(sampler(options), 0, 100);
  std::vector<std::int64_t> resumed = firsts(sampler(options), 0, 40);
  BatchSampler larger = sampler({.sequence_length = 7, .global_batch = 20, .seed = 2});
  larger.go_on_from({.step = 40, .samples = 200});
  EXPECT_EQ(larger.samples_done(40), 200);
  EXPECT_EQ(larger.samples_done(41), 220);
  const std::vector<std::int64_t> rest = firsts(larger, 40, 55);
  resumed.insert(resumed.end(), rest.begin(), rest.end());
  EXPECT_EQ(resumed, through);
}

TEST_F(BatchSamplerTest, RefusesPositionsThatAreNotThere) {
  BatchSampler batches = sampler({.sequence_length = 10, .global_batch = 4, .seed = 1});
  EXPECT_THAT(error_of([&] { batches.go_on_from({.step = -1}); }), HasSubstr("no training can continue from step -1"));
  EXPECT_THAT(error_of([&] { batches.go_on_from({.samples = -1}); }), HasSubstr("and sample -1"));
  batches.go_on_from({.step = 3, .samples = INT64_MAX - 8});
  EXPECT_THAT(error_of([&] { (void)batches.window(2, 0); }), HasSubstr("no training step 2"));
  EXPECT_GE(batches.window(4, 3), 0);
  EXPECT_THAT(error_of([&] { (void)batches.window(5, 0); }), HasSubstr("no training step 5"));
}

TEST_F(BatchSamplerTest, SeedsGiveOtherOrders) {
  const auto order = [&](std::uint64_t seed) {
    return firsts(sampler({.sequence_length = 10, .global_batch = 10, .seed = seed}), 0, 10);
  };
  EXPECT_NE(order(1), order(2));
  EXPECT_EQ(order(1), order(1));
}

/// What the order is must never change, or training that is resumed with another version would see other samples.
TEST_F(BatchSamplerTest, TheOrderIsFixed) {
  const BatchSampler batches = sampler({.sequence_length = 100, .global_batch = 10, .seed = 42});
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < 10; ++i) windows.push_back(batches.window(0, i));
  EXPECT_THAT(windows, ElementsAre(8, 2, 7, 1, 4, 5, 9, 6, 0, 3));
}

TEST_F(BatchSamplerTest, WorksWithOneWindow) {
  bytes_ = counting_bytes(11);
  const BatchSampler batches = sampler({.sequence_length = 10, .global_batch = 3, .seed = 1});
  EXPECT_EQ(batches.window_count(), 1);
  EXPECT_THAT(firsts(batches, 0, 2), Each(0));
}

TEST_F(BatchSamplerTest, RefusesWhatMakesNoBatch) {
  const auto refusal = [&](const BatchSamplerOptions& options) { return error_of([&] { (void)sampler(options); }); };
  EXPECT_THAT(refusal({.sequence_length = 0, .global_batch = 1}), HasSubstr("the sequence length is 0; give 1 to"));
  EXPECT_THAT(refusal({.sequence_length = 10, .global_batch = 0}), HasSubstr("the global batch is 0"));
  EXPECT_THAT(refusal({.sequence_length = INT64_MAX, .global_batch = 1}), HasSubstr("sequence length"));
  EXPECT_THAT(refusal({.sequence_length = 10, .global_batch = INT64_MAX}), HasSubstr("global batch"));
  EXPECT_EQ(
      refusal({.sequence_length = 1003, .global_batch = 1}),
      "t.bin: 1003 tokens are too few for a sequence of 1003 tokens and its last target; use shorter sequences or a "
      "longer text");
  bytes_.clear();
  EXPECT_THAT(refusal({.sequence_length = 1, .global_batch = 1}), HasSubstr("0 tokens are too few"));
}

TEST_F(BatchSamplerTest, RefusesStepsAndSamplesThatAreNotThere) {
  const BatchSampler batches = sampler({.sequence_length = 10, .global_batch = 4, .seed = 1});
  EXPECT_THAT(error_of([&] { (void)batches.window(-1, 0); }), HasSubstr("no training step -1"));
  EXPECT_THAT(error_of([&] { (void)batches.window(INT64_MAX, 0); }), HasSubstr("no training step"));
  EXPECT_GE(batches.window(INT64_MAX / 4 - 1, 3), 0);
  EXPECT_THROW((void)batches.window(0, 4), Error);
  std::vector<std::int64_t> tokens(44);
  EXPECT_THROW(batches.read(0, {.first = 1, .count = 4}, tokens), Error);
  EXPECT_THROW(batches.read(0, {.first = 0, .count = 3}, tokens), Error);
  EXPECT_THROW(batches.read(0, {.first = 0, .count = -1}, tokens), Error);
}

TEST(MicrobatchSlice, CutsIntoBlocks) {
  const BatchSlice slice =
      microbatch_slice(32, {.data_parallel_size = 2, .data_parallel_rank = 1, .microbatches = 4, .microbatch = 2});
  EXPECT_EQ(slice.first, 16 + 2 * 4);
  EXPECT_EQ(slice.count, 4);
}

TEST(MicrobatchSlice, RefusesUnequalParts) {
  EXPECT_THAT(error_of([] { (void)microbatch_slice(10, {3, 0, 1, 0}); }), HasSubstr("make it a multiple of 3"));
  EXPECT_THAT(error_of([] { (void)microbatch_slice(0, {1, 0, 1, 0}); }), HasSubstr("0 samples"));
  EXPECT_THAT(error_of([] { (void)microbatch_slice(8, {2, 2, 1, 0}); }), HasSubstr("no data-parallel rank 2 of 2"));
  EXPECT_THAT(error_of([] { (void)microbatch_slice(8, {2, -1, 1, 0}); }), HasSubstr("rank -1"));
  EXPECT_THAT(error_of([] { (void)microbatch_slice(8, {2, 0, 2, 2}); }), HasSubstr("no microbatch 2 of 2"));
  EXPECT_THAT(error_of([] { (void)microbatch_slice(8, {0, 0, 2, 0}); }), HasSubstr("data-parallel ranks is 0"));
  EXPECT_THAT(error_of([] { (void)microbatch_slice(8, {1, 0, -2, 0}); }), HasSubstr("microbatches is -2"));
}

TEST(DocumentLengths, EndWithTheirTokenOrTheInputs) {
  EXPECT_THAT(document_lengths(std::vector<std::int64_t>{5, 6, 0, 7, 0, 0, 8}, 0), ElementsAre(3, 2, 1, 1));
  EXPECT_THAT(document_lengths(std::vector<std::int64_t>{5, 6, ~std::int64_t{0}}, 0), ElementsAre(3)) << "marked";
  EXPECT_THAT(document_lengths(std::vector<std::int64_t>{5, 6}, 0), ElementsAre(2));
}

TEST(Permutation, TakesEveryValueOnce) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 100, 1023, 1024, 1025, 65537}) {
    for (const std::uint64_t seed : {0ULL, 1ULL, ~0ULL}) {
      const Permutation order(size, seed);
      std::vector<bool> taken(static_cast<std::size_t>(size), false);
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t value = order(i);
        ASSERT_TRUE(value >= 0 && value < size) << size;
        ASSERT_FALSE(taken[static_cast<std::size_t>(value)]) << size;
        taken[static_cast<std::size_t>(value)] = true;
      }
    }
  }
}

TEST(Permutation, WorksOnTheLargestSizes) {
  const Permutation order(INT64_MAX, 7);
  std::set<std::int64_t> values;
  for (std::int64_t i = 0; i < 1000; ++i) values.insert(order(INT64_MAX - 1 - i));
  EXPECT_EQ(values.size(), 1000U);
  EXPECT_GE(*values.begin(), 0);
}

TEST(Permutation, EverySeedGivesAnotherOrder) {
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Permutation order(20, seed);
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < 20; ++i) values.push_back(order(i));
    orders.insert(values);
  }
  EXPECT_EQ(orders.size(), 1000U);
}

/// Over many seeds each value stands at each place about equally often. With 20,000 seeds and 10 places the count is
/// binomial, 2,000 with a standard deviation of 42; five of them leave a random order a chance in 10,000 of failing,
/// and seeds are fixed.
TEST(Permutation, EveryPlaceIsAsLikelyAsAnother) {
  constexpr std::int64_t kSize = 10;
  std::vector<int> counts(kSize * kSize, 0);
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    const Permutation order(kSize, seed);
    for (std::int64_t i = 0; i < kSize; ++i) ++counts[static_cast<std::size_t>(i * kSize + order(i))];
  }
  for (const int count : counts) EXPECT_NEAR(count, 2000, 5 * 42);
}

/// Neighbours do not stay neighbours: in a random order of n, a step of +1 occurs about once.
TEST(Permutation, NeighboursDoNotStayTogether) {
  const Permutation order(100'000, 3);
  int steps = 0;
  for (std::int64_t i = 0; i + 1 < 100'000; ++i) steps += order(i + 1) == order(i) + 1 ? 1 : 0;
  EXPECT_LT(steps, 10);
}

TEST(Permutation, RefusesWhatIsNotThere) {
  EXPECT_THROW(Permutation(0, 1), Error);
  EXPECT_THROW(Permutation(-5, 1), Error);
  const Permutation order(5, 1);
  EXPECT_THROW((void)order(5), Error);
  EXPECT_THROW((void)order(-1), Error);
}

}  // namespace

}  // namespace lowgear::dataset
