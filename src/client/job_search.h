#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/measure/unit_log.h"
#include "client/periodic_thread.h"
#include "client/rank/gpu_choice.h"
#include "client/rank/rank_environment.h"
#include "client/search/held_point.h"
#include "client/search/point_search.h"
#include "hardware/measure/energy_meter.h"

namespace lowgear::client {

/// Points as a user names them.
struct RequestedPoints {
  PointKind kind = PointKind::clock;
  std::vector<double> values;  ///< MHz or W, full speed first; empty: chosen
};

/// The request of a search of the operating point.
struct SearchRequest {
  double allowed_slowdown_pct = 0;
  RequestedPoints points;
  double block_s = 30;
  std::optional<int> max_iterations;  ///< empty: 300, or as many as 30 blocks take
  std::filesystem::path record;       ///< empty: none
};

/// `slowdown=2%`, also without the sign. Throws InputError.
[[nodiscard]] double parse_allowed_slowdown_pct(std::string_view text);
/// `clock`, `power-limit`, or with values: `clock=1980,1755,1530`. Throws InputError.
[[nodiscard]] RequestedPoints parse_points(std::string_view text);

/// What `lowgear run --search` sets: LOWGEAR_SEARCH (`slowdown=2%`), LOWGEAR_SEARCH_POINTS, LOWGEAR_SEARCH_BLOCK (in s)
/// and LOWGEAR_SEARCH_RECORD. Empty where the first is not set. Throws InputError.
[[nodiscard]] std::optional<SearchRequest> search_from_environment(const Environment& environment);

/// The process that searches for its job: the job's first rank.
struct SearchingRank {
  RankInfo rank;
  std::string gpu;  ///< UUID or PCI address; empty: as CUDA_VISIBLE_DEVICES says
  std::filesystem::path agent_http_socket;
};

/// A search at work: measures all GPUs of the job, sets them through the agent, on a thread of its own. The first rank
/// decides for all ranks: it sets the GPUs of all, and what runs while they change is not counted.
class JobSearch {
 public:
  /// `iterations` are those that this rank marks; it lives longer than this. Throws InputError when the request is out
  /// of range, the GPUs of the job are not known, or they report no energy.
  JobSearch(const SearchRequest& request, const SearchingRank& rank, const Environment& environment,
            IterationLog& iterations, PointSearch::Say say);
  ~JobSearch();
  JobSearch(const JobSearch&) = delete;
  JobSearch& operator=(const JobSearch&) = delete;

  [[nodiscard]] PointSearchStatus status() const { return search_->status(); }

 private:
  using Sample = std::pair<std::size_t, measure::GpuSample>;

  void work();

  RankGpu own_;
  IterationLog* iterations_;
  std::unique_ptr<PointSearch> search_;
  std::mutex mutex_;  ///< of the samples
  std::vector<Sample> samples_;
  std::unique_ptr<measure::EnergyMeter> meter_;
  std::optional<PeriodicThread> thread_;  ///< last: it uses everything above
};

}  // namespace lowgear::client
