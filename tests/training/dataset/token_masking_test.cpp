#include "training/dataset/token_masking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lowgear::dataset {
namespace {

constexpr TokenMasking kMasking{.mask_token = 3, .vocabulary = 1000};

struct Masked {
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> targets;
};

Masked masked(std::uint64_t key, const std::vector<std::int64_t>& tokens) {
  Masked sample{std::vector<std::int64_t>(tokens.size()), tokens};
  kMasking.apply(key, sample.inputs, sample.targets);
  return sample;
}

/// None of them the mask.
std::vector<std::int64_t> many_tokens() {
  std::vector<std::int64_t> tokens(200'000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = 4 + static_cast<std::int64_t>(i % 990);
  return tokens;
}

TEST(TokenMasking, ReplacesTheSharesOfBert) {
  const std::vector<std::int64_t> tokens = many_tokens();
  const Masked sample = masked(7, tokens);
  double chosen = 0;
  double masks = 0;
  double kept = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (sample.targets[i] < 0) {
      EXPECT_EQ(sample.targets[i], ~tokens[i]);
      EXPECT_EQ(sample.inputs[i], tokens[i]);
      continue;
    }
    EXPECT_EQ(sample.targets[i], tokens[i]);
    ++chosen;
    masks += sample.inputs[i] == kMasking.mask_token ? 1 : 0;
    kept += sample.inputs[i] == tokens[i] ? 1 : 0;
  }
  // Within five standard deviations; of the replaced tokens one in 1000 is the mask, and one the same.
  EXPECT_NEAR(chosen / static_cast<double>(tokens.size()), 0.15, 5 * std::sqrt(0.15 * 0.85 / 200'000));
  EXPECT_NEAR(masks / chosen, 0.8 + 1e-4, 5 * std::sqrt(0.8 * 0.2 / 30'000));
  EXPECT_NEAR(kept / chosen, 0.1 + 1e-4, 5 * std::sqrt(0.1 * 0.9 / 30'000));
}

TEST(TokenMasking, FollowsFromTheSample) {
  const std::vector<std::int64_t> tokens = many_tokens();
  EXPECT_EQ(masked(7, tokens).inputs, masked(7, tokens).inputs);
  EXPECT_NE(masked(7, tokens).targets, masked(8, tokens).targets);
}

TEST(TokenMasking, NeverChoosesMarkedTokens) {
  std::vector<std::int64_t> tokens = many_tokens();
  for (std::int64_t& token : tokens) token = ~token;
  const Masked sample = masked(7, tokens);
  EXPECT_EQ(sample.targets, tokens);
  EXPECT_EQ(sample.inputs, many_tokens());
}

}  // namespace
}  // namespace lowgear::dataset
