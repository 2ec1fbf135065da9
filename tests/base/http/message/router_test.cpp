#include "base/http/message/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/http/message/error.h"

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

using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<Route> routes() {
  return {{.method = "POST", .pattern = "/v1/jobs"},
          {.method = "GET", .pattern = "/v1/jobs"},
          {.method = "GET", .pattern = "/v1/jobs/{}"},
          {.method = "DELETE", .pattern = "/v1/jobs/{}"},
          {.method = "POST", .pattern = "/v1/jobs/{}/ranks/{}"}};
}

Router::Match find(const std::string& method, const std::string& path, HeadRequests head = HeadRequests::as_get) {
  Request request;
  request.method = method;
  request.path = path;
  return Router(routes(), "/list", head).find(request, parse_target(path, ""));
}

/// What `find` throws.
HttpError refusal(const std::string& method, const std::string& path, HeadRequests head = HeadRequests::as_get) {
  try {
    (void)find(method, path, head);
  } catch (const HttpError& error) {
    return error;
  }
  ADD_FAILURE() << method << " " << path << " is answered";
  return {ErrorCode::internal, "none"};
}

TEST(HttpRouter, FindsARouteByMethodAndPath) {
  EXPECT_EQ(find("POST", "/v1/jobs").route, 0U);
  EXPECT_THAT(find("POST", "/v1/jobs").captures, testing::IsEmpty());
  EXPECT_EQ(find("GET", "/v1/jobs").route, 1U);
  EXPECT_EQ(find("DELETE", "/v1/jobs/7").route, 3U);
  EXPECT_THAT(find("POST", "/v1/jobs/a%2Fb/ranks/3").captures, ElementsAre("a/b", "3"));
}

TEST(HttpRouter, AnswersHeadAsGetOrNotAtAll) {
  EXPECT_EQ(find("HEAD", "/v1/jobs").route, 1U);
  EXPECT_EQ(find("HEAD", "/v1/jobs/7").route, 2U);
  EXPECT_EQ(refusal("HEAD", "/v1/jobs/7/ranks/3").kind(), ErrorCode::method_not_allowed);
  const HttpError refused = refusal("HEAD", "/v1/jobs/7", HeadRequests::refused);
  EXPECT_EQ(refused.status(), 405);
  EXPECT_THAT(refused.headers(), ElementsAre(Pair("Allow", "GET, DELETE")));
}

TEST(HttpRouter, SaysWhereThePathsAre) {
  for (const char* path : {"/", "/v1", "/v1/jobs/", "/v1/jobs/7/ranks", "/v1/jobs/7/ranks/3/4", "/V1/jobs"}) {
    if (std::string_view(path) == "/v1/jobs/") continue;  // an empty part is a part
    const HttpError error = refusal("GET", path);
    EXPECT_EQ(error.kind(), ErrorCode::not_found) << path;
    EXPECT_THAT(error.what(), testing::HasSubstr("/list")) << path;
  }
  EXPECT_THAT(find("GET", "/v1/jobs/").captures, ElementsAre(""));
}

TEST(HttpRouter, SaysWhichMethodsAPathTakes) {
  const HttpError error = refusal("PATCH", "/v1/jobs");
  EXPECT_EQ(error.code(), "method_not_allowed");
  EXPECT_THAT(error.headers(), ElementsAre(Pair("Allow", "POST, GET, HEAD")));
  EXPECT_STREQ(error.what(), "\"PATCH\" is not allowed for this path; allowed: POST, GET, HEAD");
  EXPECT_THAT(refusal("get", "/v1/jobs/7").headers(), ElementsAre(Pair("Allow", "GET, HEAD, DELETE")));
}

TEST(RequireKnownParameters, NamesTheOneThatIsNotKnown) {
  const std::vector<std::string_view> known{"after", "limit"};
  require_known_parameters(known, parse_target("/", "limit=3"));
  EXPECT_EQ(error_of([&] { require_known_parameters(known, parse_target("/", "limits=3")); }),
            "parameter \"limits\" is not known; known: after, limit");
  EXPECT_EQ(error_of([&] { require_known_parameters({}, parse_target("/", "x")); }),
            "parameter \"x\" is not known; known: none");
}

}  // namespace

}  // namespace lowgear::http
