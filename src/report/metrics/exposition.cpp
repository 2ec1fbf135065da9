#include "report/metrics/exposition.h"

#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <cstddef>
#include <limits>

#include "base/core/utf8.h"

namespace lowgear::metrics {
namespace {

using prometheus::ClientMetric;

prometheus::MetricType type_of(MetricKind kind) {
  switch (kind) {
    case MetricKind::counter:
      return prometheus::MetricType::Counter;
    case MetricKind::histogram:
      return prometheus::MetricType::Histogram;
    default:
      return prometheus::MetricType::Gauge;
  }
}

/// Readers refuse a whole page for one byte that is no UTF-8.
std::string utf8_only(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = utf8_character_size(text);
    result += size == 0 ? std::string_view("?") : text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return result;
}

/// Prometheus counts in each bucket what is in those below, too.
ClientMetric::Histogram cumulative(const Histogram& histogram) {
  ClientMetric::Histogram result;
  result.sample_count = histogram.count();
  result.sample_sum = histogram.sum();
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
    below += histogram.counts()[i];
    const bool is_last = i == histogram.bounds().size();
    result.bucket.push_back({below, is_last ? std::numeric_limits<double>::infinity() : histogram.bounds()[i]});
  }
  return result;
}

}  // namespace

MetricLabels with(MetricLabels labels, std::string name, std::string value) {
  labels.emplace_back(std::move(name), std::move(value));
  return labels;
}

void MetricFamily::add(MetricLabels labels, double value) {
  if (std::isfinite(value)) samples_.push_back({std::move(labels), value, std::nullopt});
}

void MetricFamily::add(MetricLabels labels, const Histogram& histogram) {
  samples_.push_back({std::move(labels), 0, histogram});
}

MetricFamily& Exposition::gauge(std::string_view name, std::string_view help) {
  return families_.emplace_back(fmt::format("lowgear_{}", name), std::string(help), MetricKind::gauge);
}

MetricFamily& Exposition::counter(std::string_view name, std::string_view help) {
  return families_.emplace_back(fmt::format("lowgear_{}_total", name), std::string(help), MetricKind::counter);
}

MetricFamily& Exposition::histogram(std::string_view name, std::string_view help) {
  return families_.emplace_back(fmt::format("lowgear_{}", name), std::string(help), MetricKind::histogram);
}

std::string Exposition::text() const {
  std::vector<prometheus::MetricFamily> families;
  for (const MetricFamily& family : families_) {
    if (family.samples_.empty()) continue;
    prometheus::MetricFamily& out = families.emplace_back();
    out.name = family.name_;
    out.help = family.help_;
    out.type = type_of(family.kind_);
    for (const MetricFamily::Sample& sample : family.samples_) {
      ClientMetric& metric = out.metric.emplace_back();
      for (const auto& [name, value] : sample.labels) metric.label.push_back({name, utf8_only(value)});
      metric.gauge.value = sample.value;
      metric.counter.value = sample.value;
      if (sample.histogram) metric.histogram = cumulative(*sample.histogram);
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace lowgear::metrics
