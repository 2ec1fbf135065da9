#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/measure/unit_log.h"
#include "client/periodic_thread.h"
#include "client/rank/gpu_choice.h"
#include "client/search/point_search.h"
#include "client/search/search_request.h"
#include "hardware/measure/energy_meter.h"

namespace lowgear::client {

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
