#include "http/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/error.h"

namespace lowgear {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ParseTarget, SegmentsAndParametersAreDecoded) {
  const HttpTarget target = parse_target("/v1/jobs/a%2Fb+c/%e2%82%ac", "x=1&y=a+b%26&flag&z=%3D=");
  EXPECT_THAT(target.segments, ElementsAre("v1", "jobs", "a/b+c", "\u20ac"));
  EXPECT_THAT(target.parameters, ElementsAre(Pair("flag", ""), Pair("x", "1"), Pair("y", "a b&"), Pair("z", "==")));
}

TEST(ParseTarget, TheRootIsOneEmptySegment) {
  EXPECT_THAT(parse_target("/", "").segments, ElementsAre(""));
  EXPECT_THAT(parse_target("/", "").parameters, IsEmpty());
  EXPECT_THAT(parse_target("/a/", "&&").segments, ElementsAre("a", ""));
}

TEST(ParseTarget, WhatIsWrongIsAnInputError) {
  EXPECT_THROW((void)parse_target("", ""), InputError);
  EXPECT_THROW((void)parse_target("*", ""), InputError);
  for (const char* path : {"/%", "/%4", "/%zz", "/%0g"}) EXPECT_THROW((void)parse_target(path, ""), InputError) << path;
  EXPECT_THROW((void)parse_target("/", "a=%"), InputError);
  EXPECT_THROW((void)parse_target("/", "a=1&a=2"), InputError);
  EXPECT_THROW((void)parse_target(std::string(100, '/'), ""), InputError);
  std::string many;
  for (int i = 0; i < 100; ++i) many += "p" + std::to_string(i) + "&";
  EXPECT_THROW((void)parse_target("/", many), InputError);
}

}  // namespace
}  // namespace lowgear
