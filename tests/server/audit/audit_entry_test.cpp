#include "server/audit/audit_entry.h"

#include <gtest/gtest.h>

#include <string>

#include "base/core/formats/json.h"

namespace lowgear::server {
namespace {

constexpr AuditTime kTime{std::chrono::milliseconds(1'700'000'000'007)};

TEST(AuditEntry, IsALineOfJson) {
  AuditedRequest request{.caller = "token trainers",
                         .address = "192.0.2.7",
                         .method = "PUT",
                         .route = "/v1/budgets/{}",
                         .object = "row-1",
                         .status = 200,
                         .result = "ok"};
  EXPECT_EQ(
      audit_line(request, kTime),
      R"({"format":"lowgear.audit/1","time":"2023-11-14T22:13:20.007Z","event":"request","caller":"token trainers",)"
      R"("address":"192.0.2.7","method":"PUT","route":"/v1/budgets/{}","object":"row-1","status":200,"result":"ok"})"
      "\n");
  request.caller.clear();
  request.object.clear();
  const Json entry = Json::parse(audit_line(request, kTime));
  EXPECT_TRUE(entry["caller"].is_null());
  EXPECT_TRUE(entry["object"].is_null());
}

TEST(AuditEntry, TextOfClientsStaysOneShortLine) {
  AuditedRequest request;
  request.object = "a\n{\"event\":\"forged\"}\xff" + std::string(100'000, 'x');
  const std::string line = audit_line(request, kTime);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_LT(line.size(), 1'000U);
  EXPECT_EQ(Json::parse(line)["event"], "request");
}

TEST(AuditEntry, NothingInItEndsALineForAnyReader) {
  for (const std::string separator : {"\n", "\r", "\v", "\f", "\x1c", "\u0085", "\u2028", "\u2029"}) {
    AuditedRequest request;
    request.caller = request.address = request.object = separator;
    request.method = separator;
    for (const std::string& line : {audit_line(request, kTime), audit_line(AuditedEvent{"tokens", separator}, kTime)}) {
      EXPECT_EQ(line.find(separator), separator == "\n" ? line.size() - 1 : std::string::npos) << line;
      EXPECT_TRUE(Json::accept(line));
    }
  }
}

TEST(AuditEntry, EventsHaveADetail) {
  const Json entry = Json::parse(audit_line(AuditedEvent{"tokens", "2 tokens are valid"}, kTime));
  EXPECT_EQ(entry["event"], "tokens");
  EXPECT_EQ(entry["detail"], "2 tokens are valid");
}

}  // namespace
}  // namespace lowgear::server
