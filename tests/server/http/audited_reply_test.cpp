#include "server/http/audited_reply.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "base/http/message/error.h"
#include "server/server_fakes.h"

namespace lowgear::server {
namespace {

class AuditedReplyTest : public testing::Test {
 protected:
  /// The entries that answers to a route make: `RESULT OBJECT`.
  std::vector<std::string> entries_of(std::string_view method, std::string_view pattern, std::string object,
                                      const http::Response& response) {
    const auto path = folder / std::to_string(++logs) += ".jsonl";
    const auto route = std::ranges::find_if(
        api_routes(), [&](const ApiRoute& each) { return each.method == method && each.pattern == pattern; });
    EXPECT_NE(route, api_routes().end()) << method << " " << pattern;
    {
      AuditLog log({.path = path}, [](const std::string& text) { ADD_FAILURE() << text; });
      http::Request request;
      request.peer = ipc::UnixPeer{.uid = 7, .gid = 7, .pid = 1};
      const auto held = std::make_shared<HeldReply>();
      AuditedReply reply(held, audited_request(request, *route, std::move(object)), log);
      reply.set_caller("token t");
      reply.send(response);
      EXPECT_EQ(held->status(), response.status);
    }
    std::vector<std::string> entries;
    std::istringstream text(read_file(path));
    for (std::string line; std::getline(text, line);) {
      const Json entry = Json::parse(line);
      EXPECT_EQ(entry["address"], "unix user 7");
      EXPECT_EQ(entry["caller"], "token t");
      entries.push_back(entry["result"].get<std::string>() + " " +
                        (entry["object"].is_null() ? "-" : entry["object"].get<std::string>()));
    }
    return entries;
  }

  using Entries = std::vector<std::string>;
  TemporaryFolder folder;
  int logs = 0;
  http::Response ok = http::json_response({{"job", "j-1"}});
};

TEST_F(AuditedReplyTest, EntersChangesAndWhatWasRefusedToBeChanged) {
  EXPECT_EQ(entries_of("PUT", "/v1/budgets/{}", "row", ok), Entries{"ok row"});
  EXPECT_EQ(entries_of("DELETE", "/v1/jobs/{}", "j-2", ok), Entries{"ok j-2"});
  EXPECT_EQ(entries_of("POST", "/v1/jobs", "", ok), Entries{"ok j-1"}) << "the job that was registered";
  EXPECT_EQ(entries_of("POST", "/v1/jobs/{}/power_cap", "j-2", http::error_response(http::ErrorCode::job_over, "over")),
            Entries{"job_over j-2"});
  EXPECT_EQ(entries_of("POST", "/v1/jobs", "", http::error_response(http::ErrorCode::not_stored, "x")),
            Entries{"not_stored -"});
}

TEST_F(AuditedReplyTest, EntersNothingThatIsReadOrSentAllTheTime) {
  EXPECT_EQ(entries_of("GET", "/v1/jobs", "", ok), Entries{});
  EXPECT_EQ(entries_of("POST", "/v1/jobs/{}/reports", "j-1", ok), Entries{});
  EXPECT_EQ(entries_of("POST", "/v1/jobs/{}/profile", "j-1", ok), Entries{});
  EXPECT_EQ(entries_of("POST", "/v1/jobs/{}/decisions", "j-1", ok), Entries{});
}

TEST_F(AuditedReplyTest, EntersEverythingThatTheCallerHadNoRightTo) {
  const http::Response unknown = http::error_response(http::ErrorCode::no_token, "x");
  const http::Response refused = http::error_response(http::ErrorCode::not_allowed, "x");
  EXPECT_EQ(entries_of("GET", "/v1/jobs/{}", "j-1", unknown), Entries{"no_token j-1"});
  EXPECT_EQ(entries_of("POST", "/v1/jobs/{}/reports", "j-1", refused), Entries{"not_allowed j-1"});
}

}  // namespace
}  // namespace lowgear::server
