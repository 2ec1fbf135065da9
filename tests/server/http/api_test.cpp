#include "server/http/api.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/core/error.h"
#include "server/http/api_routes.h"
#include "server/http/dashboard_files.h"
#include "server/http/event_hub.h"
#include "server/server_fakes.h"

namespace lowgear::server {
namespace {

/// Of each scope alone, and of all.
const std::string kTokens[] = {"read-token-for-tests", "jobs-token-for-tests", "operate-token-for-tests",
                               "node-token-for-tests", "admin-token-for-tests"};
const std::vector<Scopes> kScopes = {{Scope::read}, {Scope::jobs}, {Scope::operate}, {Scope::node}, Scopes::all()};
constexpr int kAll = 4;

Json document() { return Json::parse(api_document("openapi.json")); }

/// `/v1/jobs/{job}/plan` as the table has it.
std::string pattern_of(std::string path) {
  for (std::size_t open = 0; (open = path.find('{', open)) != std::string::npos; open += 2) {
    path.replace(open, path.find('}', open) - open + 1, "{}");
  }
  return path;
}

const Json& resolved(const Json& whole, const Json& node) {
  return node.contains("$ref") ? whole.at(Json::json_pointer(node["$ref"].get<std::string>().substr(1))) : node;
}

std::string scope_text(ApiAccess access) {
  const auto scope = scope_of(access);
  return scope ? std::string(to_string(*scope)) : "anybody";
}

TEST(ApiRoutes, ThoseThatWaitAreNotTimed) {
  std::vector<std::string> waiting;
  for (const ApiRoute& route : api_routes()) {
    if (route.waits()) waiting.push_back(fmt::format("{} {}", route.method, route.pattern));
  }
  EXPECT_THAT(waiting, testing::UnorderedElementsAre("GET /v1/jobs/{}/plan", "POST /v1/nodes/{}/power"));
}

TEST(ApiRoutes, AreThoseOfTheDocument) {
  const Json whole = document();
  std::set<std::string> documented;
  for (const auto& [path, item] : whole["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      std::string upper = method;
      std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
      std::string text = upper + " " + pattern_of(path) + " " + operation["x-lowgear-scope"].get<std::string>();
      for (const Json& each : operation.value("parameters", Json::array())) {
        const Json& parameter = resolved(whole, each);
        if (parameter["in"] == "query") text += " " + parameter["name"].get<std::string>();
      }
      documented.insert(text);
    }
  }
  std::set<std::string> routed;
  for (const ApiRoute& route : api_routes()) {
    std::string text = std::string(route.method) + " " + std::string(route.pattern) + " " + scope_text(route.access);
    for (const std::string_view parameter : route.parameters) text += " " + std::string(parameter);
    routed.insert(text);
  }
  EXPECT_EQ(routed, documented);
}

class ApiTest : public testing::Test {
 protected:
  static AuthenticationRules rules() {
    AuthenticationRules rules;
    for (std::size_t i = 0; i < kScopes.size(); ++i) {
      rules.tokens.push_back({.scopes = kScopes[i], .name = "t" + std::to_string(i), .nodes = {}, .token = kTokens[i]});
      if (!kScopes[i].contain(Scope::node)) continue;
      rules.tokens.back().nodes = std::make_shared<const NodeNames>(NodeNames{.hosts = {"x"}, .patterns = {}});
    }
    return rules;
  }

  std::shared_ptr<HeldReply> ask(std::string method, std::string path, std::string body = {}, int token = kAll) {
    http::Request request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.body = std::move(body);
    if (token >= 0) request.headers["authorization"] = "Bearer " + kTokens[token];
    const auto reply = std::make_shared<HeldReply>();
    api.handle(request, reply);
    store.answer_all(StoreOutcome::committed);
    return reply;
  }

  std::shared_ptr<HeldReply> ask_target(std::string method, const std::string& target) {
    http::Request request;
    request.method = std::move(method);
    request.path = target.substr(0, target.find('?'));
    request.query = target.substr(target.find('?') + 1);
    request.headers["authorization"] = "Bearer " + kTokens[kAll];
    const auto reply = std::make_shared<HeldReply>();
    api.handle(request, reply);
    return reply;
  }

  static std::string code(const HeldReply& reply) {
    return Json::parse(reply.response->text())["error"]["code"].get<std::string>();
  }

  HeldStore store;
  HeldPlanning planning;
  EventHub events;
  Activity activity;
  ControlPlane plane{{.store = &store,
                      .planning = &planning,
                      .events = &events,
                      .activity = &activity,
                      .now_s = [] { return 1e9; },
                      .calendar_s = {},
                      .new_key = [] { return std::string(32, 'k'); },
                      .log = {}},
                     {}};
  Authenticator authenticator{rules(), [](uid_t, gid_t) { return false; }};
  Api api{{.control_plane = &plane,
           .authenticator = &authenticator,
           .events = &events,
           .activity = &activity,
           .metrics = [] { return std::string("# metrics\n"); }}};
};

TEST_F(ApiTest, LetsEachScopeDoWhatTheTableSays) {
  for (const ApiRoute& route : api_routes()) {
    std::string path(route.pattern);
    if (const std::size_t hole = path.find("{}"); hole != std::string::npos) path.replace(hole, 2, "x");
    const std::optional<Scope> needed = scope_of(route.access);
    for (int token = -1; token <= kAll; ++token) {
      const int status = ask(std::string(route.method), path, {}, token)->status();
      if (!needed || (token >= 0 && kScopes[static_cast<std::size_t>(token)].contain(*needed))) {
        EXPECT_TRUE(status != 401 && status != 403 && status != 0) << route.method << path << token << status;
      } else {
        EXPECT_EQ(status, token < 0 ? 401 : 403) << route.method << path << token;
      }
    }
  }
}

TEST_F(ApiTest, MakesSignInsForUsersOfTheSocketAndForNoToken) {
  authenticator.sign_ins().set_dashboard("http://127.0.0.1:7787");
  http::Request request;
  request.method = "POST";
  request.path = "/v1/sign_ins";
  request.peer = ipc::UnixPeer{.uid = 0, .gid = 0, .pid = 1};
  const auto sign_in = [&] {
    const auto reply = std::make_shared<HeldReply>();
    api.handle(request, reply);
    return reply;
  };
  EXPECT_EQ(sign_in()->status(), 200);
  request.headers["authorization"] = "Bearer " + kTokens[0];
  EXPECT_EQ(code(*sign_in()), "not_found") << "its sessions would outlive the token";
  request.peer = ipc::UnixPeer{.uid = 54'321, .gid = 54'321, .pid = 1};
  EXPECT_EQ(code(*sign_in()), "not_found");
  request.headers.clear();
  EXPECT_EQ(sign_in()->status(), 401);
}

TEST_F(ApiTest, ParsesNoLongTextOfAnybody) {
  EXPECT_EQ(ask("POST", "/v1/sessions", R"({"token":")" + std::string(4'096, '0') + R"("})", -1)->status(), 413);
  EXPECT_EQ(ask("POST", "/v1/sessions", R"({"token":"0"})", -1)->status(), 401);
}

TEST_F(ApiTest, SaysWhatIsWrongWithAPath) {
  EXPECT_EQ(code(*ask("GET", "/v1/nothing")), "not_found");
  EXPECT_EQ(code(*ask("GET", "/v1/jobs/j-1")), "no_such_job");
  const auto wrong_method = ask("PATCH", "/v1/jobs");
  EXPECT_EQ(wrong_method->status(), 405);
  EXPECT_THAT(std::string(wrong_method->response->text()), testing::HasSubstr("POST, GET, HEAD"));
  EXPECT_THAT(wrong_method->response->headers, testing::Contains(testing::Pair("Allow", "POST, GET, HEAD")));
  EXPECT_EQ(ask("HEAD", "/v1/jobs")->status(), 200);
  EXPECT_EQ(ask("GET", "/%")->status(), 400);
}

TEST_F(ApiTest, AnswersOnceItIsStored) {
  http::Request request;
  request.method = "POST";
  request.path = "/v1/jobs";
  request.body = R"({"run":"r","model":"m","gpu":"g","parallel":{},"schedule":"1f1b","microbatches":2})";
  request.headers["authorization"] = "Bearer " + kTokens[1];
  const auto reply = std::make_shared<HeldReply>();
  api.handle(request, reply);
  EXPECT_EQ(reply->status(), 0);
  store.answer(StoreOutcome::busy);
  EXPECT_EQ(reply->status(), 503);
  EXPECT_EQ(code(*reply), "busy");
  EXPECT_THAT(reply->response->headers, testing::Contains(testing::Pair("Retry-After", "1")));
  const auto again = std::make_shared<HeldReply>();
  api.handle(request, again);
  store.answer(StoreOutcome::failed);
  EXPECT_EQ(again->status(), 500);
  const auto third = std::make_shared<HeldReply>();
  api.handle(request, third);
  store.answer(StoreOutcome::committed);
  EXPECT_EQ(third->status(), 200);
}

TEST_F(ApiTest, GivesTheProfileOfAKey) {
  const std::string whose = "/v1/profile?model=m%20%26&partition=uniform&gpu=g&pp=2&microbatch_size=3";
  EXPECT_EQ(code(*ask_target("GET", whose)), "not_found");
  protocol::JobSpec spec;
  spec.model = "m &";
  spec.partition = "uniform";
  spec.gpu = "g";
  spec.parallel.pp = 2;
  spec.microbatch_size = 3;
  MeasuredProfile measured;
  measured.blocking.push_back({.stage = 0, .power_w = 70, .error_w = 1});
  StoreContents contents;
  contents.documents.push_back({"profile/" + spec.profile_key(false), write_measured_profile(measured)});
  plane.restore(std::move(contents));
  EXPECT_EQ(ask_target("GET", whose)->response->text(), write_measured_profile(measured));
  EXPECT_EQ(code(*ask_target("GET", whose + "&simulated=1")), "not_found");
  EXPECT_EQ(code(*ask_target("GET", "/v1/profile?model=m&gpu=g")), "invalid_argument");
  EXPECT_EQ(code(*ask_target("GET", whose + "&tp=0")), "invalid_argument");
}

TEST_F(ApiTest, CountsRequestsByRoute) {
  (void)ask("GET", "/v1/jobs");
  (void)ask("GET", "/v1/jobs", {}, -1);
  EXPECT_EQ(ask("GET", "/metrics")->response->text(), "# metrics\n");
  EXPECT_EQ(ask("GET", "/healthz", {}, -1)->response->text(), "{\"status\":\"ok\"}\n");
}

TEST_F(ApiTest, StreamsEventsOfOneJobOrOfAll) {
  const std::string body = R"({"run":"r","model":"m","gpu":"g","parallel":{},"schedule":"1f1b","microbatches":2})";
  const auto created = ask("POST", "/v1/jobs", body);
  const std::string job = Json::parse(created->response->text())["job"].get<std::string>();
  const auto all = ask("GET", "/v1/events");
  const auto one = ask("GET", "/v1/jobs/" + job + "/events");
  ASSERT_TRUE(all->events && one->events);
  EXPECT_EQ(ask("GET", "/v1/jobs/j-none/events")->status(), 404);
  events.send("decision", job, {{"id", 1}});
  events.send("decision", "another", {{"id", 2}});
  events.flush();
  EXPECT_EQ(one->events->text, "event: decision\ndata: {\"id\":1}\n\n");
  EXPECT_THAT(all->events->text, testing::HasSubstr("{\"id\":2}"));
}

}  // namespace
}  // namespace lowgear::server
