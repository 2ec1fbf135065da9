#include "app/cli/text/job_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/core/numbers/figure_text.h"
#include "base/core/units.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/iteration/job_energy.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::cli {

std::string links_text(const estimator::TrainingJob& job) {
  if (job.parallel.gpus() == 1) return "";
  return fmt::format("{:.4g} GB/s within nodes, {:.4g} between", job.cluster.intra_node.bytes_per_s / kGiga,
                     job.cluster.inter_node.bytes_per_s / kGiga);
}

std::string overlapped_text(const estimator::TrainingJob& job) {
  const estimator::Overlap& overlap = job.overlap;
  const estimator::ParallelLayout& parallel = job.parallel;
  std::vector<std::string_view> hidden;
  if (overlap.gradients && parallel.dp * parallel.cp > 1) hidden.emplace_back("gradients");
  if (parallel.tp > 1 && (overlap.tensor || overlap.tensor_gradients)) {
    hidden.emplace_back(overlap.tensor ? "tensor" : "tensor_gradients");
  }
  if (overlap.pipeline && parallel.pp > 1) hidden.emplace_back("pipeline");
  return hidden.empty() ? "nothing" : fmt::format("{}", fmt::join(hidden, ", "));
}

std::string limited_clocks_text(const estimator::JobEstimate& estimate) {
  const estimator::GpuModel& gpu = estimate.job.gpu;
  const estimator::SustainedClocks clocks = sustained_clocks(gpu, estimate.iteration);
  if (clocks.lowest_mhz >= gpu.clocks.max_mhz) return "";
  return fmt::format("{:.0f} to {:.0f} MHz by pass, not {}: the power limit is {:.4g} W", clocks.lowest_mhz,
                     clocks.highest_mhz, gpu.clocks.max_mhz, gpu.power.limit_w);
}

namespace {

/// Whether the job cannot run, or may not within the error of the estimate; empty where it fits.
std::string headline(const estimator::JobEstimate& estimate) {
  const estimator::MemoryEstimate& memory = estimate.memory;
  if (memory.fit() == estimator::MemoryFit::fits) return "";
  const std::size_t rank = memory.fullest_rank();
  const estimator::RankMemory& used = memory.ranks[rank];
  const std::string needs = fmt::format("pipeline rank {} needs {} GiB and a GPU has {}", rank, gib_text(used.total()),
                                        gib_text(memory.capacity));
  if (memory.fit() == estimator::MemoryFit::exceeds) {
    return fmt::format("OUT OF MEMORY: {}: {} GiB too much; the largest part of the need, {} GiB, is {}", needs,
                       gib_text(estimate.overflow->missing), gib_text(estimate.overflow->largest_bytes),
                       estimate.overflow->largest);
  }
  return fmt::format(
      "NEAR THE LIMIT OF MEMORY: {}; it may run, since the estimate errs by {:.0f} % and includes a margin of {}, or "
      "slow down while PyTorch's allocator frees and allocates again (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
      "helps)",
      needs, 100 * estimator::kMemoryError, gib_text(used.fragmentation));
}

}  // namespace

MemoryVerdict memory_verdict(const estimator::JobEstimate& estimate) {
  MemoryVerdict verdict{.headline = headline(estimate), .remedies = {}};
  if (!estimate.overflow) return verdict;
  constexpr std::size_t kShown = 2;
  const bool exceeds = estimate.memory.fit() == estimator::MemoryFit::exceeds;
  const std::vector<estimator::MemoryRemedy>& remedies = estimate.overflow->remedies;
  const bool some_fit = std::ranges::any_of(remedies, &estimator::MemoryRemedy::fits);
  for (std::size_t i = 0; i < remedies.size() && !(some_fit && (i == kShown || !remedies[i].fits)); ++i) {
    const estimator::MemoryRemedy& remedy = remedies[i];
    const std::string fits = remedy.fits
                                 ? fmt::format(", {}, {} % time", exceeds ? "which fits" : "below the limit",
                                               signed_text(100 * (remedy.time_s / estimate.iteration.time_s - 1), 1))
                                 : "";
    verdict.remedies.push_back(fmt::format("with {} {} GiB{}", remedy.change, gib_text(remedy.total), fits));
  }
  if (remedies.empty()) {
    verdict.remedies.emplace_back(exceeds
                                      ? "no other setting that was tested makes it fit: use more GPUs, or larger ones"
                                      : "no other setting that was tested needs less memory");
  }
  return verdict;
}

std::string gib_text(double bytes) { return fmt::format("{:.1f}", bytes / kGiB); }

std::string seconds_text(double time_s) {
  constexpr int kDigits = 6;
  constexpr int kMostDecimals = 3;
  const int places = time_s > 0 ? static_cast<int>(std::floor(std::log10(time_s))) + 1 : 0;
  if (places <= kDigits) return fmt::format("{:.{}f}", time_s, std::min(kMostDecimals, kDigits - std::max(places, 1)));
  const double unit = std::pow(10, places - kDigits);
  return fmt::format("{:.0f}", std::round(time_s / unit) * unit);
}

}  // namespace lowgear::cli
