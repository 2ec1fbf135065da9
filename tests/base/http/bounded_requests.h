#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lowgear::http {

/// Expects that a server refuses headers and bodies beyond any limit. `ask` sends a request and returns the answer.
template <typename Ask>
void expect_bounded_requests(Ask ask) {
  using ::testing::StartsWith;
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask("GET /" + std::string(100'000, 'x')), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask("POST / HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n"), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(ask("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n" + std::string(200'000, 'x')),
              StartsWith("HTTP/1.1 411"));
}

}  // namespace lowgear::http
