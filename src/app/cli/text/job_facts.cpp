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

/// Above the capacity, and by how much: either the job cannot run, or it may within the error of the estimate.
std::string headline(const estimator::JobEstimate& estimate) {
  const estimator::MemoryOverflow& overflow = *estimate.overflow;
  const std::string needs =
      fmt::format("pipeline rank {} needs {} GiB and a GPU has {}", overflow.rank,
                  gib_text(estimate.memory.ranks[overflow.rank].total()), gib_text(estimate.memory.capacity));
  if (estimate.memory.fit() == estimator::MemoryFit::exceeds) {
    return fmt::format("OUT OF MEMORY: {}: {} GiB too much, {} of it {}", needs, gib_text(overflow.missing),
                       gib_text(overflow.largest_bytes), overflow.largest);
  }
  return fmt::format(
      "NEAR THE LIMIT OF MEMORY: {}; it may run, since the estimate errs by {:.0f} % and includes a margin of {}",
      needs, 100 * estimator::kMemoryError, gib_text(estimate.memory.ranks[overflow.rank].fragmentation));
}

}  // namespace

MemoryVerdict memory_verdict(const estimator::JobEstimate& estimate) {
  if (!estimate.overflow) return {};
  constexpr std::size_t kShown = 2;
  const bool exceeds = estimate.memory.fit() == estimator::MemoryFit::exceeds;
  const std::vector<estimator::MemoryRemedy>& remedies = estimate.overflow->remedies;
  const bool some_fit = std::ranges::any_of(remedies, &estimator::MemoryRemedy::fits);
  MemoryVerdict verdict{.headline = headline(estimate), .remedies = {}};
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
