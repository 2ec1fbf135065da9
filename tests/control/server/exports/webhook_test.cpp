#include "control/server/exports/webhook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "base/http/looped_server.h"
#include "base/http/server/server.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;
using testing::Not;

class WebhookAddressTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text, mode_t mode = 0600) {
    const std::filesystem::path path = folder_ / "address";
    write_file_atomically(path.string(), text);
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string refusal(const std::string& text, mode_t mode = 0600) {
    return error_of([&] { (void)read_webhook_address(write(text, mode)); });
  }

  TemporaryFolder folder_;
};

TEST_F(WebhookAddressTest, KeepsTheSecretApartFromTheHost) {
  const WebhookAddress address = read_webhook_address(write("http://127.0.0.1:8080/services/T0/B0/XX?a=b\n"));
  EXPECT_EQ(address.endpoint.text(), "http://127.0.0.1:8080");
  EXPECT_EQ(address.target, "/services/T0/B0/XX?a=b");
  EXPECT_EQ(read_webhook_address(write("http://proxy")).target, "/");
  EXPECT_TRUE(read_webhook_address(write("https://hooks.example/services/T0")).endpoint.tls);
}

TEST_F(WebhookAddressTest, ShowsNoAddressInErrors) {
  for (const char* text : {"ftp://hooks.example/SECRET", "https://u:p@hooks.example/SECRET", "http://host:99999/SECRET",
                           "http://a b/SECRET", "SECRET", "http:///SECRET", ""}) {
    EXPECT_THAT(refusal(text), AllOf(HasSubstr("address"), Not(HasSubstr("SECRET")))) << text;
  }
  EXPECT_THAT(refusal("http://127.0.0.1/SECRET", 0640), AllOf(HasSubstr("chmod 600"), Not(HasSubstr("SECRET"))));
}

TEST(WebhookBody, IsWhatSlackShowsAndTheDecision) {
  const Json decision = Json::parse(R"({"id":4,"kind":"guard","job":"j-1","reason":"a <b> & c","plan_version":null})");
  const Json body = Json::parse(webhook_body(*find_server_event("decision"), decision));
  EXPECT_EQ(body["text"], "Lowgear, job j-1: guard: a &lt;b&gt; &amp; c");
  EXPECT_EQ(body["event"], "decision");
  EXPECT_EQ(body["kind"], "guard");
  EXPECT_EQ(body["reason"], "a <b> & c");
  EXPECT_EQ(body["id"], 4);
  EXPECT_TRUE(body["plan_version"].is_null());
}

TEST(WebhookBody, NamesWhatTheEventIsAbout) {
  const auto text = [](const char* event, const Json& data) {
    return Json::parse(webhook_body(*find_server_event(event), data))["text"].get<std::string>();
  };
  EXPECT_EQ(text("job_lost", {{"job", "j-1"}, {"reason", "r"}}), "Lowgear, job j-1: lost: r");
  EXPECT_EQ(text("budget_kept", {{"budget", "row-<1>"}, {"reason", "r"}}),
            "Lowgear, power budget row-&lt;1&gt;: kept again: r");
  EXPECT_EQ(text("agent_silent", {{"node", "n-1"}, {"reason", "r"}}), "Lowgear, node n-1: its agent is silent: r");
}

std::shared_ptr<const std::string> decision(const std::string& kind) {
  return std::make_shared<const std::string>("event: job\ndata: {}\n\nevent: decision\ndata: {\"kind\":\"" + kind +
                                             "\",\"job\":\"j\",\"reason\":\"r\"}\n\n");
}

/// Port 9 of an address that nothing listens on.
WebhookAddress nowhere() { return {http::Endpoint::parse("http://127.99.99.99:9"), "/"}; }

TEST(Webhook, HoldsNothingUpWhenItsReceiverIsGone) {
  WebhookOptions options;
  options.most_waiting = 3;
  options.first_pause = options.longest_pause = std::chrono::hours(1);
  std::vector<std::string> log;
  {
    Webhook webhook(
        {.name = "w", .url_file = {}, .kinds = {"guard"}}, nowhere(),
        [&](const std::string& text) { log.push_back(text); }, options);
    for (int i = 0; i < 5; ++i) webhook.push(decision("guard"));
    webhook.push(decision("plan"));
    const WebhookStatistics statistics = webhook.statistics();
    EXPECT_EQ(statistics.waiting, 3U);
    EXPECT_EQ(statistics.dropped, 2U);
    EXPECT_EQ(statistics.sent, 0U);
    while (webhook.statistics().failed == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }  // does not wait for the pause
  ASSERT_EQ(log.size(), 1U);
  EXPECT_THAT(log[0], HasSubstr("webhook \"w\""));
}

TEST(Webhook, TakesTheEventsThatItIsFor) {
  WebhookOptions options;
  options.first_pause = options.longest_pause = std::chrono::hours(1);
  const std::string text =
      "event: job\ndata: {\"reason\":\"event: job_lost\"}\n\nevent: job_lost\ndata: {\"job\":\"j\"}\n\n"
      "event: budget_kept\ndata: {\"budget\":\"b\"}\n\nevent: decision\ndata: {\"kind\":\"plan\"}\n\nevent: "
      "job_lost\ndata: 7"
      "\n\nevent: job_lost\ndata: {\"job\":\"k\"}\n\n";
  const auto taken = [&](std::set<ServerEvent> events) {
    Webhook webhook(
        {.name = "w", .url_file = {}, .events = std::move(events)}, nowhere(), [](const std::string&) {}, options);
    webhook.push(std::make_shared<const std::string>(text));
    return webhook.statistics().waiting;
  };
  EXPECT_EQ(taken({ServerEvent::job_lost}), 2U);
  EXPECT_EQ(taken({ServerEvent::job_lost, ServerEvent::budget_kept, ServerEvent::decision}), 4U);
  EXPECT_EQ(taken({ServerEvent::job_ended}), 0U);
}

TEST(Webhook, GivesADecisionUpAfterSomeAttempts) {
  WebhookOptions options;
  options.attempts = 3;
  options.first_pause = options.longest_pause = std::chrono::milliseconds(1);
  Webhook webhook(
      {.name = "w", .url_file = {}, .kinds = {}}, nowhere(), [](const std::string&) {}, options);
  webhook.push(decision("guard"));
  while (webhook.statistics().dropped == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(webhook.statistics().failed, 3U);
  EXPECT_EQ(webhook.statistics().waiting, 0U);
}

/// Says always when to come back.
class BusyReceiver : public http::Handler {
 public:
  void handle(http::Request, std::shared_ptr<http::Reply> reply) override {
    http::Response response = http::Response::with_body(429, "text/plain", "");
    response.headers.emplace_back("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT");
    reply->send(std::move(response));
  }
};

class BusyWebhookTest : public http::LoopedServer<http::Server> {};

TEST_F(BusyWebhookTest, ComesBackAtTheDateThatTheReceiverSays) {
  BusyReceiver receiver;
  server = std::make_unique<http::Server>(io, receiver, http::ServerOptions{});
  port = server->listen_tcp("127.0.0.1", 0);
  run();
  WebhookOptions options;
  options.first_pause = options.longest_pause = std::chrono::milliseconds(1);
  Webhook webhook(
      {.name = "w", .url_file = {}, .kinds = {}},
      {http::Endpoint{.host = "127.0.0.1", .port = port, .unix_path = {}}, "/"}, [](const std::string&) {}, options);
  webhook.push(decision("guard"));
  while (webhook.statistics().failed == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a hundred times the longest pause
  EXPECT_EQ(webhook.statistics().failed, 1U);
  EXPECT_EQ(webhook.statistics().waiting, 1U);
}

TEST(WebhookMetrics, CountsByOutcome) {
  const std::vector<WebhookStatistics> webhooks = {{.name = "w", .sent = 4, .failed = 3, .dropped = 2, .waiting = 1}};
  metrics::Exposition exposition;
  add_webhook_metrics(webhooks, exposition);
  const std::string text = exposition.text();
  EXPECT_THAT(text, HasSubstr("lowgear_server_webhook_events_total{webhook=\"w\",outcome=\"sent\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_server_webhook_events_total{webhook=\"w\",outcome=\"dropped\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_server_webhook_failures_total{webhook=\"w\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_server_webhook_waiting{webhook=\"w\"} 1\n"));
}

}  // namespace
}  // namespace lowgear::server
