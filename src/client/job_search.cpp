#include "client/job_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/numbers/quantity.h"
#include "client/rank/gpu_choice.h"
#include "planning/adapt/operating_point_search.h"

namespace lowgear::client {

namespace {

constexpr double kMostSlowdownPct = 1000;
constexpr double kMostBlockS = 86'400;
constexpr double kMostValue = 100'000;

/// Empty unless it is a quantity from `low` to `high`.
std::optional<double> quantity_within(std::string_view text, Unit unit, double low, double high) {
  const std::optional<double> number = parse_quantity(text, unit);
  return number && *number >= low && *number <= high ? number : std::nullopt;
}

}  // namespace

double parse_allowed_slowdown_pct(std::string_view text) {
  constexpr std::string_view kPrefix = "slowdown=";
  std::string_view number = text;
  if (number.starts_with(kPrefix)) number.remove_prefix(kPrefix.size());
  const std::optional<double> percent = parse_quantity(number, Unit::percent);
  if (percent && may_be_share(number)) throw InputError(fmt::format("{}: {}", text, share_or_percent(number)));
  if (!percent || *percent < 0 || *percent > kMostSlowdownPct || !text.starts_with(kPrefix)) {
    throw InputError(
        fmt::format("a search takes slowdown=PERCENT, 0 to {} by which an iteration may take longer, such "
                    "as slowdown=2%, not {}{}",
                    kMostSlowdownPct, quote(text), comma_hint(number)));
  }
  return *percent;
}

namespace {

/// Throws InputError. Slowdowns are against the first point.
void require_full_speed_first(const std::vector<double>& values) {
  if (values.size() < 2 || values.size() > adapt::kMaxOperatingPoints) {
    throw InputError(fmt::format("{} given; a search takes 2 to {}, full speed first, such as clock=1980,1755",
                                 counted(values.size(), "operating point", "operating points"),
                                 adapt::kMaxOperatingPoints));
  }
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values.front()) {
      throw InputError(fmt::format("the operating point {} comes after {}; list full speed, the highest, first",
                                   values[i], values.front()));
    }
    if (std::find(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), values[i]) !=
        values.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw InputError(fmt::format("the operating point {} is given twice", values[i]));
    }
  }
}

}  // namespace

RequestedPoints parse_points(std::string_view text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string_view kind = text.substr(0, equals);
  RequestedPoints points;
  if (kind == "power-limit") {
    points.kind = PointKind::power_limit;
  } else if (kind != "clock") {
    throw InputError(fmt::format("there are no operating points {}; the kinds are clock and power-limit", quote(kind)));
  }
  if (equals == text.size()) return points;
  const Unit unit = points.kind == PointKind::clock ? Unit::megahertz : Unit::watt;
  std::string_view list = text.substr(equals + 1);
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::optional<double> value = quantity_within(list.substr(0, comma), unit, 1, kMostValue);
    if (!value) {
      throw InputError(
          fmt::format("{} is no value of an operating point; list them with full speed first, such as "
                      "clock=1980,1755",
                      quote(list.substr(0, comma))));
    }
    points.values.push_back(*value);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  require_full_speed_first(points.values);
  return points;
}

std::optional<SearchRequest> search_from_environment(const Environment& environment) {
  const std::string bound = environment("LOWGEAR_SEARCH").value_or("");
  if (bound.empty()) return std::nullopt;
  SearchRequest request;
  request.allowed_slowdown_pct = parse_allowed_slowdown_pct(bound);
  if (const auto points = environment("LOWGEAR_SEARCH_POINTS"); points && !points->empty()) {
    request.points = parse_points(*points);
  }
  if (const auto block = environment("LOWGEAR_SEARCH_BLOCK"); block && !block->empty()) {
    const std::optional<double> block_s = quantity_within(*block, Unit::second, 0.001, kMostBlockS);
    if (!block_s) throw InputError(fmt::format("LOWGEAR_SEARCH_BLOCK={} is no time in s", printable(*block, 60)));
    request.block_s = *block_s;
  }
  request.record = environment("LOWGEAR_SEARCH_RECORD").value_or("");
  return request;
}

namespace {

constexpr std::chrono::milliseconds kLookEvery{50};
/// Samples that wait for the thread, which may be waiting for the agent.
constexpr std::size_t kMostSamples = 100'000;

std::uint64_t now_ns() { return static_cast<std::uint64_t>(monotonic_ns()); }

/// Points that the user does not name, among those that the GPU supports.
void choose_points(gpu::Gpu& gpu, const SearchRequest& request, PointSearchOptions& options) {
  if (request.points.kind == PointKind::power_limit) {
    if (!works(gpu, gpu::GpuFeature::power_limits)) throw InputError("this GPU has no power limits to search among");
    const gpu::PowerLimits limits = gpu.power_limits();
    options.values = {std::floor(limits.default_w)};
    options.choose = [limits](const FullSpeed& seen) {
      const double running_w = seen.power_w > 0 ? seen.power_w : limits.default_w;
      return adapt::default_power_limits_w(limits.min_w, limits.default_w, running_w);
    };
    return;
  }
  std::vector<int> supported_mhz;
  if (works(gpu, gpu::GpuFeature::supported_clocks)) supported_mhz = gpu.supported_sm_clocks_mhz();
  if (supported_mhz.empty()) {
    throw InputError("this GPU does not say which clocks it supports; name the operating points");
  }
  const int highest_mhz = std::ranges::max(supported_mhz);
  options.values = {static_cast<double>(highest_mhz)};
  options.choose = [supported_mhz, highest_mhz, allowed_pct = request.allowed_slowdown_pct](const FullSpeed& seen) {
    const double running_mhz = seen.clock_mhz > 0 ? seen.clock_mhz : highest_mhz;
    const std::vector<int> clocks_mhz = adapt::default_clocks_mhz(supported_mhz, running_mhz, allowed_pct);
    return std::vector<double>(clocks_mhz.begin(), clocks_mhz.end());
  };
}

PointSearchOptions search_options(gpu::Gpu& gpu, const SearchRequest& request) {
  PointSearchOptions options;
  options.kind = request.points.kind;
  options.values = request.points.values;
  if (options.values.empty()) {
    choose_points(gpu, request, options);
  } else {
    require_full_speed_first(options.values);
  }
  options.search.allowed_slowdown_pct = request.allowed_slowdown_pct;
  options.search.block_s = request.block_s;
  if (request.max_iterations) options.search.max_iterations = *request.max_iterations;
  options.adapts_limit = !request.max_iterations;
  options.record = request.record;
  return options;
}

}  // namespace

JobSearch::JobSearch(const SearchRequest& request, const SearchingRank& rank, const Environment& environment,
                     IterationLog& iterations, PointSearch::Say say)
    : own_(open_rank_gpu(rank.gpu, rank.rank.local_rank, environment)), iterations_(&iterations) {
  if (rank.agent_http_socket.empty())
    throw InputError(
        "no agent is used, and without one no operating point is set; start one (lowgear agent), and name "
        "its socket by LOWGEAR_AGENT_SOCKET where that is not the usual one");
  const std::vector<gpu::Gpu*> gpus = job_gpus(own_, rank.rank, environment);
  std::vector<std::string> uuids;
  std::vector<measure::GpuMeter> meters;
  for (gpu::Gpu* const gpu : gpus) {
    if (!works(*gpu, gpu::GpuFeature::energy_counter)) {
      throw InputError(
          fmt::format("{} does not count its energy: operating points cannot be compared", gpu->identity().uuid));
    }
    uuids.push_back(gpu->identity().uuid);
    meters.emplace_back(*gpu);
  }
  PointSearchOptions options = search_options(*own_.gpu, request);
  HeldPoint held(std::make_unique<AgentPointSetter>(rank.agent_http_socket, uuids, options.kind), now_ns);
  search_ =
      std::make_unique<PointSearch>(std::move(options), std::move(held), std::move(meters), now_ns, std::move(say));
  measure::EnergyMeterOptions meter;
  meter.observer = [this](std::size_t gpu, const measure::GpuSample& sample) {
    const std::lock_guard lock(mutex_);
    if (samples_.size() < kMostSamples) samples_.emplace_back(gpu, sample);
  };
  meter_ = std::make_unique<measure::EnergyMeter>(*own_.system, gpus, std::move(meter));
  thread_.emplace(kLookEvery, [this] { work(); });
}

JobSearch::~JobSearch() {
  thread_.reset();
  meter_.reset();
}

void JobSearch::work() {
  std::vector<Sample> samples;
  {
    const std::lock_guard lock(mutex_);
    samples.swap(samples_);
  }
  for (const auto& [gpu, sample] : samples) search_->add(gpu, sample);
  UnitRecord record;
  while (iterations_->pop(record)) search_->add(record);
  search_->look();
}

}  // namespace lowgear::client
