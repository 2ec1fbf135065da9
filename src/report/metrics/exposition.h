#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lowgear::metrics {

/// How many observations were how large. A value; one thread at a time.
class Histogram {
 public:
  /// `bounds`: upper ends of the buckets, ascending; one more bucket takes higher values.
  explicit Histogram(std::vector<double> bounds);

  /// Counts a value. Values that are not finite are ignored.
  void observe(double value);

  [[nodiscard]] std::span<const double> bounds() const { return bounds_; }
  /// By bucket, one more than there are bounds; each counts only its own.
  [[nodiscard]] std::span<const std::uint64_t> counts() const { return counts_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// `first`, `first` x `factor`, ...: `count` bounds.
[[nodiscard]] std::vector<double> geometric_bounds(double first, double factor, int count);

/// Prometheus' text format.
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/// Names and values. Values may be any text: bytes that are no UTF-8 are replaced, the rest is escaped.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

/// The labels with one more.
[[nodiscard]] MetricLabels with(MetricLabels labels, std::string name, std::string value);

enum class MetricKind : unsigned char { gauge, counter, histogram };

struct MetricSample {
  MetricLabels labels;
  double value = 0;                    ///< finite; of a gauge or counter
  std::optional<Histogram> histogram;  ///< of a histogram
};

/// One metric with its samples.
class MetricFamily {
 public:
  MetricFamily(std::string name, std::string help, MetricKind kind)
      : name_(std::move(name)), help_(std::move(help)), kind_(kind) {}

  /// Leaves out a value that is not finite: readers refuse `NaN`, and an unknown value is not zero.
  void add(MetricLabels labels, double value);
  /// Leaves out an unknown value. `scale` leads from the value's unit to the metric's; one below 1 divides by its
  /// inverse, as 35 / 100 is 0.35 and 35 * 0.01 is not.
  template <typename Number>
  void add(const MetricLabels& labels, const std::optional<Number>& value, double scale = 1) {
    if (!value) return;
    const auto number = static_cast<double>(*value);
    add(labels, scale < 1 ? number / (1 / scale) : number * scale);
  }
  void add(MetricLabels labels, const Histogram& histogram);

  /// With prefix and, of a counter, `_total`.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& help() const { return help_; }
  [[nodiscard]] MetricKind kind() const { return kind_; }
  [[nodiscard]] const std::vector<MetricSample>& samples() const { return samples_; }

 private:
  std::string name_;
  std::string help_;
  MetricKind kind_;
  std::vector<MetricSample> samples_;
};

/// Metrics of one program while they are gathered. All names get the prefix `lowgear_`.
class Exposition {
 public:
  /// The family stays valid as long as this.
  MetricFamily& gauge(std::string_view name, std::string_view help);
  /// `_total` is added to the name.
  MetricFamily& counter(std::string_view name, std::string_view help);
  MetricFamily& histogram(std::string_view name, std::string_view help);

  /// Prometheus' text format 0.0.4, in the order in which families were made. Families without samples are left out.
  [[nodiscard]] std::string text() const;

 private:
  std::deque<MetricFamily> families_;
};

}  // namespace lowgear::metrics
