#include "base/http/message/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error.h"

namespace lowgear::http {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::Pair;

TEST(ParseTarget, SegmentsAndParametersAreDecoded) {
  const Target target = parse_target("/v1/jobs/a%2Fb+c/%e2%82%ac", "x=1&y=a+b%26&flag&z=%3D=");
  EXPECT_THAT(target.segments, ElementsAre("v1", "jobs", "a/b+c", "\u20ac"));
  EXPECT_THAT(target.parameters, ElementsAre(Pair("flag", ""), Pair("x", "1"), Pair("y", "a b&"), Pair("z", "==")));
}

TEST(ParseTarget, TheRootIsOneEmptySegment) {
  EXPECT_THAT(parse_target("/", "").segments, ElementsAre(""));
  EXPECT_THAT(parse_target("/", "").parameters, testing::IsEmpty());
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

TEST(MatchPath, BracesStandForOnePartEach) {
  const auto captures = [](std::string_view pattern, std::string_view path) {
    return match_path(pattern, parse_target(path, "").segments);
  };
  EXPECT_THAT(captures("/v1/jobs", "/v1/jobs"), Optional(testing::IsEmpty()));
  EXPECT_THAT(captures("/v1/jobs/{}/ranks/{}", "/v1/jobs/7/ranks/a%2Fb"), Optional(ElementsAre("7", "a/b")));
  EXPECT_THAT(captures("/{}", "/"), Optional(ElementsAre("")));
  for (const char* path : {"/v1", "/v1/jobs", "/v1/jobs/7/plan", "/v1/job/7", "/"}) {
    EXPECT_EQ(captures("/v1/jobs/{}", path), std::nullopt) << path;
  }
}

}  // namespace
}  // namespace lowgear::http
