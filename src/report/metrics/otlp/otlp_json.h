#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/metrics/exposition.h"

namespace lowgear::metrics {

/// The program whose metrics are exported: attributes of OTLP's resource.
struct OtlpResource {
  std::string service;  ///< `service.name`: `lowgear-server`
  std::string version;  ///< `service.version`
  std::string host;     ///< `host.name` and `service.instance.id`
};

/// Nanoseconds since 1970.
struct OtlpTimes {
  std::int64_t start_ns = 0;  ///< since when sums and histograms count
  std::int64_t time_ns = 0;   ///< of the values
};

/// Collectors refuse large requests.
inline constexpr std::size_t kMostOtlpPoints = 5'000;

/// Bodies of ExportMetricsServiceRequest in OTLP's JSON encoding (opentelemetry.io/docs/specs/otlp, version 1): gauges,
/// monotonic sums and histograms, the last two cumulative, each with at most `most_points` points. Names are those of
/// Prometheus' text format; units follow from them. Texts that are no UTF-8 are replaced. Metrics without samples are
/// left out; without any there is no body.
[[nodiscard]] std::vector<std::string> otlp_requests(const Exposition& exposition, const OtlpResource& resource,
                                                     OtlpTimes times, std::size_t most_points = kMostOtlpPoints);

}  // namespace lowgear::metrics
