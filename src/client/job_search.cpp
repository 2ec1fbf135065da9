#include "client/job_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "client/rank/job_gpus.h"
#include "planning/adapt/default_points.h"

namespace lowgear::client {
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
  if (options.values.empty()) choose_points(gpu, request, options);
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
  if (rank.agent_http_socket.empty()) throw InputError("no agent is used, and without one no operating point is set");
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
