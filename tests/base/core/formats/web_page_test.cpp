#include "base/core/formats/web_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/formats/yaml.h"

namespace lowgear {
namespace {

using ::testing::StartsWith;

constexpr const char* kRefusal =
    "file: it is a web page (HTML or XML), as a failed download leaves it; download the file";

TEST(WebPage, IsRefusedByEveryReader) {
  for (const char* const page :
       {"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n", "\n<HTML>\n<body>404 Not Found</body>",
        "\xef\xbb\xbf<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code></Error>"}) {
    EXPECT_THAT(error_of([&] { (void)parse_json(page, "file"); }), StartsWith(kRefusal));
    EXPECT_THAT(error_of([&] { const CsvTable table(page, "file"); }), StartsWith(kRefusal));
    EXPECT_THAT(error_of([&] { (void)YamlView::parse(page, "file"); }), StartsWith(kRefusal));
  }
}

TEST(WebPage, IsNothingElse) {
  for (const char* const text : {"", "{}", "<", "<table", "stage,kind\n", "a: <!doctype html>\n"}) {
    EXPECT_EQ(error_of([&] { refuse_web_page(text, "file"); }), "no error") << text;
  }
}

}  // namespace
}  // namespace lowgear
