#include "estimating/estimator/memory/activations_that_fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"
#include "base/core/units.h"

namespace lowgear::estimator {

namespace {

/// Microbatches in flight on a rank in 1F1B.
int held_by_rank(const TrainingJob& job, std::size_t rank) {
  return std::min(job.parallel.pp - static_cast<int>(rank), static_cast<int>(job.microbatches()));
}

}  // namespace

std::vector<double> activation_bytes_of_ranks(const TrainingJob& job, const MemoryEstimate& memory) {
  std::vector<double> bytes;
  for (std::size_t rank = 0; rank < memory.ranks.size(); ++rank) {
    bytes.push_back(memory.ranks[rank].activations / held_by_rank(job, rank) * (1 + kFragmentationShare));
  }
  return bytes;
}

std::vector<int> activations_that_fit(const TrainingJob& job, const MemoryEstimate& memory) {
  if (job.schedule != "1f1b" || job.parallel.virtual_stages > 1) {
    throw InputError("activations that fit are counted for schedule 1f1b with one stage a rank; choose it");
  }
  const auto microbatches = static_cast<int>(job.microbatches());
  const std::vector<double> bytes = activation_bytes_of_ranks(job, memory);
  std::vector<int> fit;
  for (std::size_t rank = 0; rank < memory.ranks.size(); ++rank) {
    const RankMemory& used = memory.ranks[rank];
    const double free = memory.capacity - used.total();
    if (free < 0) {
      throw InputError(
          fmt::format("the job does not fit: pipeline rank {} needs {:.1f} GiB more than it has", rank, -free / kGiB));
    }
    const int held = held_by_rank(job, rank);
    // Compared as doubles first: next to no activation leaves room for more than an int counts.
    fit.push_back(held + static_cast<int>(std::min<double>(microbatches - held, free / bytes[rank])));
  }
  return fit;
}

}  // namespace lowgear::estimator
