#include "client/marks/known_streams.h"

#include <gtest/gtest.h>

namespace lowgear::client {
namespace {

TEST(KnownStreams, KeepTheirNumbers) {
  KnownStreams streams;
  int first = 0;
  int second = 0;
  int third = 0;
  EXPECT_TRUE(streams.use(&first, 2));
  EXPECT_EQ(streams.number(), 0);
  EXPECT_TRUE(streams.use(&second, 2));
  EXPECT_EQ(streams.number(), 1);
  EXPECT_FALSE(streams.use(&third, 2));
  EXPECT_EQ(streams.stream(), &second) << "the one before stays";
  EXPECT_TRUE(streams.use(&first, 2));
  EXPECT_EQ(streams.number(), 0);
  EXPECT_EQ(streams.stream(), &first);
}

}  // namespace
}  // namespace lowgear::client
