#include "report/metrics/otlp/otlp_json.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "base/core/formats/json.h"

namespace lowgear::metrics {
namespace {

/// AGGREGATION_TEMPORALITY_CUMULATIVE; OTLP's JSON has numbers for enumerations.
constexpr int kCumulative = 2;

/// Ends of names and their units in UCUM. The longer of two that fit comes first.
constexpr auto kUnits = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"_bytes_per_second", "By/s"},
    {"_seconds", "s"},
    {"_joules", "J"},
    {"_watts", "W"},
    {"_hertz", "Hz"},
    {"_bytes", "By"},
    {"_celsius", "Cel"},
    {"_ratio", "1"},
});

/// Empty: the name states none.
std::string_view unit_of(std::string_view name) {
  constexpr std::string_view kTotal = "_total";
  if (name.ends_with(kTotal)) name.remove_suffix(kTotal.size());
  for (const auto& [end, unit] : kUnits) {
    if (name.ends_with(end)) return unit;
  }
  return {};
}

/// 64-bit integers are texts in the JSON of Protocol Buffers.
template <typename Integer>
Json integer_json(Integer value) {
  return fmt::to_string(value);
}

Json attribute(std::string_view key, std::string_view value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

Json point_of(const MetricFamily& family, const MetricSample& sample, OtlpTimes times) {
  Json point = Json::object();
  Json attributes = Json::array();
  for (const auto& [name, value] : sample.labels) attributes.push_back(attribute(name, value));
  point["attributes"] = std::move(attributes);
  if (family.kind() != MetricKind::gauge) point["startTimeUnixNano"] = integer_json(times.start_ns);
  point["timeUnixNano"] = integer_json(times.time_ns);
  if (!sample.histogram) {
    point["asDouble"] = sample.value;
    return point;
  }
  point["count"] = integer_json(sample.histogram->count());
  point["sum"] = sample.histogram->sum();
  Json counts = Json::array();
  for (const std::uint64_t count : sample.histogram->counts()) counts.push_back(integer_json(count));
  point["bucketCounts"] = std::move(counts);
  Json bounds = Json::array();
  for (const double bound : sample.histogram->bounds()) bounds.push_back(bound);
  point["explicitBounds"] = std::move(bounds);
  return point;
}

Json metric_of(const MetricFamily& family, Json points) {
  Json metric = {{"name", family.name()}, {"description", family.help()}};
  if (const std::string_view unit = unit_of(family.name()); !unit.empty()) metric["unit"] = unit;
  switch (family.kind()) {
    case MetricKind::gauge:
      metric["gauge"] = {{"dataPoints", std::move(points)}};
      break;
    case MetricKind::counter:
      metric["sum"] = {
          {"dataPoints", std::move(points)}, {"aggregationTemporality", kCumulative}, {"isMonotonic", true}};
      break;
    case MetricKind::histogram:
      metric["histogram"] = {{"dataPoints", std::move(points)}, {"aggregationTemporality", kCumulative}};
      break;
  }
  return metric;
}

std::string request_of(const OtlpResource& resource, Json metrics) {
  const Json attributes = {attribute("service.name", resource.service), attribute("service.version", resource.version),
                           attribute("service.instance.id", resource.host), attribute("host.name", resource.host)};
  const Json scope = {{"scope", {{"name", "lowgear"}, {"version", resource.version}}}, {"metrics", std::move(metrics)}};
  const Json of_resource = {{"resource", {{"attributes", attributes}}}, {"scopeMetrics", Json::array({scope})}};
  const Json request = {{"resourceMetrics", Json::array({of_resource})}};
  return request.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<std::string> otlp_requests(const Exposition& exposition, const OtlpResource& resource, OtlpTimes times,
                                       std::size_t most_points) {
  std::vector<std::string> requests;
  Json metrics = Json::array();
  std::size_t points_there = 0;
  const auto end_request = [&] {
    if (!metrics.empty()) requests.push_back(request_of(resource, std::exchange(metrics, Json::array())));
    points_there = 0;
  };
  for (const MetricFamily& family : exposition.families()) {
    Json points = Json::array();
    for (const MetricSample& sample : family.samples()) {
      points.push_back(point_of(family, sample, times));
      if (++points_there < most_points) continue;
      metrics.push_back(metric_of(family, std::exchange(points, Json::array())));
      end_request();
    }
    if (!points.empty()) metrics.push_back(metric_of(family, std::move(points)));
  }
  end_request();
  return requests;
}

}  // namespace lowgear::metrics
