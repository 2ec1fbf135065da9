#include "base/http/message/error.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace lowgear {
namespace {

TEST(ErrorResponse, IsAJsonObjectOfMessageAndCode) {
  const HttpResponse response = error_response(404, "not_found", "no \"job\"\nhere");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(response.text(), "{\"error\":{\"message\":\"no \\\"job\\\"\\nhere\",\"code\":\"not_found\"}}\n");
}

TEST(JsonResponse, BytesThatAreNoTextAreReplaced) {
  Json body;
  body["name"] = "a\xff";
  EXPECT_EQ(json_response(body, 201).status, 201);
  EXPECT_EQ(json_response(body).text(), "{\"name\":\"a\xef\xbf\xbd\"}\n");
}

TEST(HttpErrorTest, CarriesStatusAndCode) {
  const HttpError error(409, "conflict", "somebody else has it");
  EXPECT_EQ(error.status(), 409);
  EXPECT_EQ(error.code(), "conflict");
  EXPECT_STREQ(error.what(), "somebody else has it");
  EXPECT_TRUE(error.headers().empty());
}

TEST(HttpErrorTest, IsAnsweredWithItsHeaders) {
  const HttpResponse response =
      error_response(HttpError(405, "wrong_method", "this path takes GET", {{"Allow", "GET"}}));
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.text(), error_response(405, "wrong_method", "this path takes GET").text());
  ASSERT_EQ(response.headers.size(), 1U);
  EXPECT_EQ(response.headers.front(), std::pair(std::string("Allow"), std::string("GET")));
}

}  // namespace
}  // namespace lowgear
