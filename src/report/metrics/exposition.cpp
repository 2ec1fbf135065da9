#include "report/metrics/exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/core/text.h"

namespace lowgear::metrics {

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1, 0) {}

void Histogram::observe(double value) {
  if (!std::isfinite(value)) return;
  // A bucket holds what is at most its bound.
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  ++count_;
  sum_ += value;
}

std::vector<double> geometric_bounds(double first, double factor, int count) {
  std::vector<double> bounds;
  bounds.reserve(static_cast<std::size_t>(std::max(count, 0)));
  for (int i = 0; i < count; ++i) bounds.push_back(first * std::pow(factor, i));
  return bounds;
}

namespace {

std::string_view name_of(MetricKind kind) {
  switch (kind) {
    case MetricKind::counter:
      return "counter";
    case MetricKind::histogram:
      return "histogram";
    default:
      return "gauge";
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

/// A text within its line: a backslash before each of the `special` characters, and line ends written out.
std::string escaped(std::string_view text, std::string_view special) {
  std::string result;
  for (const char character : text) {
    if (character == '\n') {
      result += "\\n";
    } else {
      if (special.find(character) != std::string_view::npos) result += '\\';
      result += character;
    }
  }
  return result;
}

/// `{gpu="0",job="a"}`, or nothing without labels.
std::string label_text(const MetricLabels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "{" : ",", name, escaped(utf8_only(value), "\\\""));
  }
  return text.empty() ? text : text + '}';
}

/// Prometheus counts in each bucket what is in those below, too.
std::string histogram_text(std::string_view name, const MetricLabels& labels, const Histogram& histogram) {
  const std::string own = label_text(labels);
  std::string text = fmt::format("{0}_count{1} {2}\n{0}_sum{1} {3}\n", name, own, histogram.count(), histogram.sum());
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
    below += histogram.counts()[i];
    const bool is_last = i == histogram.bounds().size();
    const std::string bound = is_last ? "+Inf" : fmt::to_string(histogram.bounds()[i]);
    text += fmt::format("{}_bucket{} {}\n", name, label_text(with(labels, "le", bound)), below);
  }
  return text;
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
  std::string text;
  for (const MetricFamily& family : families_) {
    if (family.samples().empty()) continue;
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", family.name(), escaped(family.help(), "\\"),
                        name_of(family.kind()));
    for (const MetricSample& sample : family.samples()) {
      text += sample.histogram ? histogram_text(family.name(), sample.labels, *sample.histogram)
                               : fmt::format("{}{} {}\n", family.name(), label_text(sample.labels), sample.value);
    }
  }
  return text;
}

}  // namespace lowgear::metrics
