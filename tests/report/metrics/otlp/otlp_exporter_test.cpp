#include "report/metrics/otlp/otlp_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/eventually.h"
#include "base/core/formats/json.h"
#include "base/http/looped_server.h"
#include "base/http/server/server.h"

namespace lowgear::metrics {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Answers each request as the next of a list says, the last one for ever.
class Collector : public http::Handler {
 public:
  void handle(http::Request request, std::shared_ptr<http::Reply> reply) override {
    const http::Response response = answers.size() > requests.size() ? answers[requests.size()] : answers.back();
    requests.push_back(std::move(request));
    reply->send(response);
  }

  std::vector<http::Response> answers{json(200, R"({"partialSuccess":{}})")};
  std::vector<http::Request> requests;

  static http::Response json(int status, const std::string& body) {
    return http::Response::with_body(status, "application/json", body);
  }
};

class OtlpExporterTest : public http::LoopedServer<http::Server> {
 protected:
  void SetUp() override {
    server = std::make_unique<http::Server>(io, collector, http::ServerOptions{});
    port = server->listen_tcp("127.0.0.1", 0);
    limits.first_pause = limits.longest_pause = std::chrono::milliseconds(1);
    limits.longest_wish = std::chrono::milliseconds(1);
  }

  void begin() {
    run();
    OtlpOptions options;
    options.collector = http::Endpoint{.host = "127.0.0.1", .port = port, .unix_path = {}};
    exporter = std::make_unique<OtlpExporter>(
        options, OtlpResource{"lowgear-server", "1", "h"}, [this](const std::string& text) { log.push_back(text); },
        limits);
  }
  void TearDown() override {
    exporter.reset();
    LoopedServer::TearDown();
  }

  void push(double value = 1) {
    Exposition exposition;
    exposition.gauge("jobs", "Jobs.").add({}, value);
    exporter->push(std::move(exposition));
  }
  bool eventually_sent(std::uint64_t count) {
    return eventually([&] { return exporter->statistics().sent == count; });
  }

  Collector collector;
  OtlpLimits limits;
  std::vector<std::string> log;
  std::unique_ptr<OtlpExporter> exporter;
};

TEST_F(OtlpExporterTest, PostsWhatWasTheValueThen) {
  begin();
  EXPECT_TRUE(exporter->is_due());
  push(7);
  EXPECT_FALSE(exporter->is_due());
  ASSERT_TRUE(eventually_sent(1));
  const http::Request request = on_loop([&] { return collector.requests.at(0); });
  EXPECT_EQ(request.method + " " + request.path, "POST /v1/metrics");
  EXPECT_EQ(request.header("content-type"), "application/json");
  const Json metric = Json::parse(request.body)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
  EXPECT_EQ(metric["gauge"]["dataPoints"][0]["asDouble"], 7.0);
  EXPECT_THAT(log, ElementsAre());
}

TEST_F(OtlpExporterTest, RepeatsWhatTheProtocolSaysAndNothingElse) {
  collector.answers = {Collector::json(429, ""), Collector::json(502, ""), Collector::json(503, ""),
                       Collector::json(504, ""), Collector::json(200, "{}")};
  collector.answers[2].headers.emplace_back("Retry-After", "3");
  begin();
  push();
  ASSERT_TRUE(eventually_sent(1));
  EXPECT_EQ(exporter->statistics().failed, 4U);
  EXPECT_THAT(log, ElementsAre(HasSubstr("status 429"), HasSubstr("again")));
  for (const int status : {400, 401, 404, 413, 500, 301}) {
    on_loop([&] { collector.answers = {Collector::json(status, "")}; });
    const OtlpStatistics before = exporter->statistics();
    push();
    ASSERT_TRUE(eventually([&] { return exporter->statistics().dropped == before.dropped + 1; })) << status;
    EXPECT_EQ(exporter->statistics().failed, before.failed + 1) << status;
  }
}

TEST_F(OtlpExporterTest, CountsPointsThatTheCollectorRejects) {
  collector.answers = {
      Collector::json(200, R"({"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}})"),
      Collector::json(200, R"({"partialSuccess":{"rejectedDataPoints":-1}})"), Collector::json(200, "no JSON")};
  begin();
  for (int i = 0; i < 3; ++i) push();
  ASSERT_TRUE(eventually_sent(3));
  EXPECT_EQ(exporter->statistics().rejected_points, 3U);
  EXPECT_EQ(exporter->statistics().failed, 0U);
  EXPECT_THAT(log, ElementsAre(HasSubstr("3 data points were rejected: too old"), HasSubstr("again")));
}

TEST_F(OtlpExporterTest, KeepsTheNewestOfWhatWaits) {
  limits.most_waiting = 3;
  limits.first_pause = limits.longest_pause = std::chrono::hours(1);
  collector.answers = {Collector::json(503, "")};
  begin();
  push();
  ASSERT_TRUE(eventually([&] { return exporter->statistics().failed == 1; }));
  for (int i = 0; i < 5; ++i) push();
  EXPECT_EQ(exporter->statistics().waiting, 3U);
  EXPECT_EQ(exporter->statistics().dropped, 2U);
  exporter.reset();  // does not wait for the pause
  EXPECT_EQ(log.size(), 1U);
}

TEST_F(OtlpExporterTest, PostsTheLastValuesBeforeItEnds) {
  limits.last_patience = std::chrono::minutes(1);
  begin();
  push(1);
  Exposition last;
  last.gauge("jobs", "Jobs.").add({}, 2);
  exporter->end(std::move(last));
  EXPECT_EQ(exporter->statistics().sent, 2U);
  exporter.reset();
  const http::Request request = on_loop([&] { return collector.requests.back(); });
  const Json metric = Json::parse(request.body)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
  EXPECT_EQ(metric["gauge"]["dataPoints"][0]["asDouble"], 2.0);
}

TEST_F(OtlpExporterTest, EndsWithoutACollectorThatDoesNotTakeThem) {
  limits.last_patience = std::chrono::milliseconds(1);
  limits.first_pause = limits.longest_pause = std::chrono::hours(1);
  collector.answers = {Collector::json(503, "")};
  begin();
  push();
  ASSERT_TRUE(eventually([&] { return exporter->statistics().failed == 1; }));
  exporter->end({});
  EXPECT_EQ(exporter->statistics().sent, 0U);
  EXPECT_EQ(exporter->statistics().waiting, 1U);
}

TEST_F(OtlpExporterTest, ComesBackAtTheDateThatTheCollectorSays) {
  limits.longest_wish = std::chrono::hours(1);
  collector.answers = {Collector::json(429, ""), Collector::json(200, "{}")};
  collector.answers[0].headers.emplace_back("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT");
  begin();
  push();
  ASSERT_TRUE(eventually([&] { return exporter->statistics().failed == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a hundred times the longest pause
  EXPECT_EQ(exporter->statistics().sent, 0U);
}

TEST(OtlpMetrics, CountByOutcome) {
  Exposition exposition;
  add_otlp_metrics({.sent = 4, .dropped = 3, .failed = 2, .rejected_points = 5, .waiting = 1}, exposition);
  const std::string text = exposition.text();
  EXPECT_THAT(text, HasSubstr("lowgear_otlp_exports_total{outcome=\"sent\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_otlp_exports_total{outcome=\"dropped\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_otlp_failures_total 2\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_otlp_rejected_points_total 5\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_otlp_waiting 1\n"));
}

}  // namespace
}  // namespace lowgear::metrics
