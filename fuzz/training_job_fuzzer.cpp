/// Reads any text as the description of a job, whose model is in it: files are not read. What is accepted is valid, and
/// its memory is a number.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/core/error.h"
#include "checks.h"
#include "estimating/estimator/memory/memory_estimate.h"
#include "rivals/published_estimator/sampled_job.h"

namespace {

/// Schedules of more stages and microbatches take long to make, and nothing more is to be learnt from them.
constexpr std::int64_t kMostSteps = 4096;

std::optional<lowgear::estimator::ConfigFile> no_file(const std::string& /*path*/) { return std::nullopt; }

void check(const lowgear::estimator::TrainingJob& job) {
  require(!lowgear::estimator::find_fault(job));
  require(job.parallel.gpus() >= 1 && job.microbatches() >= 1);
  if (std::int64_t{job.parallel.pp} * job.parallel.virtual_stages * job.microbatches() > kMostSteps) return;
  const lowgear::estimator::MemoryEstimate memory = lowgear::estimator::estimate_memory(job);
  require(memory.ranks.size() == static_cast<std::size_t>(job.parallel.pp));
  const double total = memory.ranks[memory.fullest_rank()].total();
  require(std::isfinite(total) && total > 0);
  require(memory.within_capacity() != lowgear::estimator::explain_overflow(job, memory).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    check(lowgear::published_estimator::parse_job_file({reinterpret_cast<const char*>(data), size}, "job.yaml", {},
                                                       no_file));
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
