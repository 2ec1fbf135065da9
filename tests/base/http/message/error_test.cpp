#include "base/http/message/error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/core/files/file.h"

namespace lowgear::http {
namespace {

TEST(ErrorResponse, IsAJsonObjectOfMessageAndCode) {
  const Response response = error_response(ErrorCode::not_found, "no \"job\"\nhere");
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
  const HttpError error(ErrorCode::gpu_busy, "another user has it");
  EXPECT_EQ(error.status(), 409);
  EXPECT_EQ(error.code(), "gpu_busy");
  EXPECT_EQ(error.kind(), ErrorCode::gpu_busy);
  EXPECT_STREQ(error.what(), "another user has it");
  EXPECT_TRUE(error.headers().empty());
}

TEST(HttpErrorTest, IsAnsweredWithItsHeaders) {
  const Response response =
      error_response(HttpError(ErrorCode::method_not_allowed, "this path takes GET", {{"Allow", "GET"}}));
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.text(), error_response(ErrorCode::method_not_allowed, "this path takes GET").text());
  ASSERT_EQ(response.headers.size(), 1U);
  EXPECT_EQ(response.headers.front(), std::pair(std::string("Allow"), std::string("GET")));
}

TEST(ErrorResponse, AnswersAnyException) {
  EXPECT_EQ(error_response_to(InputError("wrong")).text(), error_response(ErrorCode::invalid_argument, "wrong").text());
  EXPECT_EQ(error_response_to(std::runtime_error("odd")).text(), error_response(ErrorCode::internal, "odd").text());
  EXPECT_EQ(error_response_to(HttpError(ErrorCode::busy, "later", {{"Retry-After", "1"}})).headers.size(), 1U);
}

TEST(ErrorBody, IsReadBack) {
  for (const ErrorRow& row : http_error_rows()) {
    const ErrorBody body{.message = "say \"why\"\n", .code = std::string(row.name)};
    EXPECT_EQ(read_error_body(error_response(row.code, body.message).text()), body);
    EXPECT_EQ(error_response(row.code, "").status, row.status);
  }
  EXPECT_EQ(read_error_body(R"({"error": {"message": "m"}})"), (ErrorBody{.message = "m", .code = ""}));
  for (const char* text : {"", "<html>", "{}", R"({"error": "m"})", R"({"detail": "m"})"}) {
    EXPECT_EQ(read_error_body(text), std::nullopt) << text;
  }
}

/// docs/errors.md has one row for each code, in the order of the program.
TEST(HttpErrorRows, AreDocumented) {
  const std::string document = read_file(std::filesystem::path(LOWGEAR_SOURCE_DIR) / "docs/errors.md", 1 << 20);
  std::vector<std::string> documented;
  std::istringstream lines(document);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| ") && line.find('`') == 8 && std::isdigit(line[2]) != 0) {
      documented.push_back(line.substr(2, line.find('`', 9) - 1));
    }
  }
  std::vector<std::string> known;
  for (const ErrorRow& row : http_error_rows()) known.push_back(fmt::format("{} | `{}`", row.status, row.name));
  EXPECT_EQ(documented, known);
}

}  // namespace
}  // namespace lowgear::http
