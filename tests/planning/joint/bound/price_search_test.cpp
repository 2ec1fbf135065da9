#include "planning/joint/bound/price_search.h"

#include <gtest/gtest.h>

namespace lowgear::joint {
namespace {

/// One op that can be slowed down from 1 to 3 for 2 per unit of time, and has to take at most 1/2 x 4 of it.
TEST(PriceSearch, FindsThePriceAtWhichTheTimeIsUsedUp) {
  const PricedOp op{.time = {0.25, 0.75}, .energy = {1, 0}, .charges = {{0, 1}}, .count = 2};
  const std::vector<double> prices = search_prices({&op, 1}, 1);
  ASSERT_EQ(prices.size(), 1);
  EXPECT_NEAR(prices[0], 2, 0.01);
}

TEST(PriceSearch, GivesNoPriceToWhatIsNeverShort) {
  const std::vector<PricedOp> ops = {{.time = {0.25, 0.75}, .energy = {1, 0}, .charges = {{0, 1}}, .count = 2},
                                     {.time = {0.1, 0.2}, .energy = {1, 0}, .charges = {{1, 1}}, .count = 1}};
  const std::vector<double> prices = search_prices(ops, 2);
  EXPECT_NEAR(prices[0], 2, 0.01);
  EXPECT_GE(prices[1], 0);
  EXPECT_LT(prices[1], 1e-3);
}

TEST(PriceSearch, KeepsFiniteWhereNothingCanBeChosen) {
  const PricedOp op{.time = {0.5}, .energy = {1}, .charges = {{0, 1}}, .count = 1};
  for (const double price : search_prices({&op, 1}, 1)) EXPECT_TRUE(price >= 0 && price < 1e9) << price;
}

/// Prices that are never short move no op, so that nothing bends but the barrier.
TEST(PriceSearch, TakesManyPricesThatMoveNoOp) {
  constexpr std::size_t kPrices = 64;
  std::vector<PricedOp> ops;
  for (std::size_t price = 0; price < kPrices; ++price) {
    ops.push_back({.time = {1e-9, 0.1}, .energy = {1, 0}, .charges = {{price, 1}}, .count = 1});
  }
  for (const double price : search_prices(ops, kPrices)) EXPECT_TRUE(price >= 0 && price < 1e-3) << price;
}

}  // namespace
}  // namespace lowgear::joint
