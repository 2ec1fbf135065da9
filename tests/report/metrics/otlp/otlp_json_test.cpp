#include "report/metrics/otlp/otlp_json.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/formats/json.h"

namespace lowgear::metrics {
namespace {

const OtlpResource kResource{.service = "lowgear-server", .version = "1.2", .host = "node-1"};
constexpr OtlpTimes kTimes{.start_ns = 1'800'000'000'000'000'000, .time_ns = 1'800'000'060'000'000'001};

std::vector<Json> documents(const Exposition& exposition, std::size_t most_points = kMostOtlpPoints) {
  std::vector<Json> read;
  for (const std::string& body : otlp_requests(exposition, kResource, kTimes, most_points)) {
    read.push_back(Json::parse(body));
  }
  return read;
}

Json metrics_of(const Json& request) { return request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]; }

/// By Protocol Buffers' JSON mapping of opentelemetry/proto/metrics/v1/metrics.proto, written out by hand.
TEST(OtlpJson, IsTheMappingOfTheProtocol) {
  Exposition exposition;
  exposition.gauge("power_watts", "Power.").add({{"gpu", "0"}}, 312.5);
  exposition.counter("energy_joules", "Energy.").add({}, 7);
  Histogram histogram({0.1, 1});
  for (const double value : {0.05, 0.5, 0.5, 2.0}) histogram.observe(value);
  exposition.histogram("step_seconds", "Time.").add({{"job_id", "a"}}, histogram);
  exposition.gauge("jobs", "Without samples.");
  const std::vector<Json> requests = documents(exposition);
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0], Json::parse(R"({"resourceMetrics": [{
    "resource": {"attributes": [
      {"key": "service.name", "value": {"stringValue": "lowgear-server"}},
      {"key": "service.version", "value": {"stringValue": "1.2"}},
      {"key": "service.instance.id", "value": {"stringValue": "node-1"}},
      {"key": "host.name", "value": {"stringValue": "node-1"}}]},
    "scopeMetrics": [{
      "scope": {"name": "lowgear", "version": "1.2"},
      "metrics": [
        {"name": "lowgear_power_watts", "description": "Power.", "unit": "W", "gauge": {"dataPoints": [
          {"attributes": [{"key": "gpu", "value": {"stringValue": "0"}}], "timeUnixNano": "1800000060000000001",
           "asDouble": 312.5}]}},
        {"name": "lowgear_energy_joules_total", "description": "Energy.", "unit": "J", "sum": {"dataPoints": [
          {"attributes": [], "startTimeUnixNano": "1800000000000000000", "timeUnixNano": "1800000060000000001",
           "asDouble": 7.0}], "aggregationTemporality": 2, "isMonotonic": true}},
        {"name": "lowgear_step_seconds", "description": "Time.", "unit": "s", "histogram": {"dataPoints": [
          {"attributes": [{"key": "job_id", "value": {"stringValue": "a"}}],
           "startTimeUnixNano": "1800000000000000000", "timeUnixNano": "1800000060000000001",
           "count": "4", "sum": 3.05, "bucketCounts": ["1", "2", "1"], "explicitBounds": [0.1, 1.0]}],
          "aggregationTemporality": 2}}]}]}]})"));
}

TEST(OtlpJson, UnitsFollowFromNames) {
  Exposition exposition;
  for (const char* name : {"a_hertz", "a_bytes", "a_bytes_per_second", "a_celsius", "a_ratio", "a_ranks"}) {
    exposition.gauge(name, "").add({}, 1);
  }
  std::vector<std::string> units;
  for (const Json& metric : metrics_of(documents(exposition).at(0))) units.push_back(metric.value("unit", "none"));
  EXPECT_EQ(units, (std::vector<std::string>{"Hz", "By", "By/s", "Cel", "1", "none"}));
}

TEST(OtlpJson, LabelsMayBeAnything) {
  Exposition exposition;
  exposition.gauge("jobs", "").add({{"name", "a\xff\"\n"}}, 1);
  const Json metric = metrics_of(documents(exposition).at(0))[0];
  EXPECT_EQ(metric["gauge"]["dataPoints"][0]["attributes"][0]["value"]["stringValue"], "a\xEF\xBF\xBD\"\n");
}

TEST(OtlpJson, LargeExportsComeInParts) {
  Exposition exposition;
  MetricFamily& first = exposition.gauge("first", "");
  MetricFamily& second = exposition.counter("second", "");
  for (int i = 0; i < 5; ++i) first.add({{"i", std::to_string(i)}}, i);
  for (int i = 0; i < 4; ++i) second.add({{"i", std::to_string(i)}}, i);
  std::vector<std::vector<std::size_t>> points;
  for (const Json& request : documents(exposition, 3)) {
    points.emplace_back();
    for (const Json& metric : metrics_of(request)) {
      points.back().push_back(metric[metric.contains("sum") ? "sum" : "gauge"]["dataPoints"].size());
    }
  }
  EXPECT_EQ(points, (std::vector<std::vector<std::size_t>>{{3}, {2, 1}, {3}}));
  EXPECT_TRUE(documents(Exposition()).empty());
}

}  // namespace
}  // namespace lowgear::metrics
