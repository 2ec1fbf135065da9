#include "training/tokenizer/added_tokens.h"

#include <gtest/gtest.h>

namespace lowgear::tokenizer {
namespace {

TEST(AddedTokens, FindsTheLeftmostAndOfThoseTheLongest) {
  const AddedTokens tokens({{"<a>", 1}, {"<a><b>", 2}, {"<b>", 3}, {"b>", 4}});
  const auto first = tokens.find("x <b> <a>");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->begin, 2U);
  EXPECT_EQ(first->token->id, 3);
  EXPECT_EQ(tokens.find("<a><b>")->token->id, 2);
  EXPECT_EQ(tokens.find("<a><c>")->token->id, 1);
  EXPECT_EQ(tokens.find("b><b>")->token->id, 4);
}

TEST(AddedTokens, FindsNothingWhereThereIsNothing) {
  EXPECT_FALSE(AddedTokens({}).find("<a>"));
  const AddedTokens tokens({{"<a>", 1}});
  EXPECT_FALSE(tokens.find(""));
  EXPECT_FALSE(tokens.find("<a"));
  EXPECT_FALSE(tokens.find("a>"));
}

}  // namespace
}  // namespace lowgear::tokenizer
