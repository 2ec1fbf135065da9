#include "planning/sharing/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/core/error.h"

namespace lowgear::sharing {
namespace {

constexpr double kPublishedMpsRate = 0.7;
constexpr double kTimeSlicingMargin = 0.05;
constexpr double kPctPerShare = 100;
/// Shares that differ by less are taken as equal.
constexpr double kTolerance = 1e-9;

Demand demand_of(const JobLoad& job, SharingMode mode) {
  if (mode == SharingMode::time_slicing || !job.sm_active || job.busy <= 0) return {job.busy, 1};
  constexpr double kLeastWidth = 1e-6;
  return {job.busy, std::clamp(*job.sm_active / job.busy, kLeastWidth, 1.0)};
}

double freed_power_w(const GpuFacts& gpu, FreedGpus freed) { return freed == FreedGpus::idle ? gpu.idle_w : 0; }

/// Power above an awake GPU while a kernel of the job runs. Alone it has stayed within the limit: a higher figure shows
/// that utilisation, which counts sample periods, missed kernels.
double kernel_power_w(const JobLoad& job, const GpuFacts& gpu) {
  const double within_limit_w = gpu.limit_w - gpu.awake_w;
  return job.busy > 0 ? std::min((job.power_w - gpu.awake_w) / job.busy, within_limit_w) : 0;
}

/// Most that a shared GPU would draw at the jobs' own clocks: by the kernels that run concurrently, at their rates.
double peak_power_w(std::span<const JobLoad> jobs, const Group& group, const GpuFacts& gpu, SharingMode mode) {
  double peak_w = 0;
  for (std::size_t set = 1; set < std::size_t{1} << group.jobs.size(); ++set) {
    double power_w = 0;
    double width = 0;
    for (std::size_t i = 0; i < group.jobs.size(); ++i) {
      if (((set >> i) & 1U) == 0) continue;
      const JobLoad& job = jobs[group.jobs[i]];
      power_w += kernel_power_w(job, gpu);
      width += demand_of(job, mode).width;
    }
    peak_w = std::max(peak_w, power_w / std::max(1.0, width));
  }
  return gpu.awake_w + peak_w;
}

void set_power(std::span<const JobLoad> jobs, const GpuFacts& gpu, const PackOptions& options, Group& group) {
  const double freed_w = freed_power_w(gpu, options.freed);
  const double awake_w = gpu.awake_w - freed_w;
  Bounded rates;
  group.apart_w = 0;
  for (std::size_t i = 0; i < group.jobs.size(); ++i) {
    const JobLoad& job = jobs[group.jobs[i]];
    const Slowdown& slowdown = group.slowdowns[i];
    rates.low += job.gpus / slowdown.high;
    rates.predicted += job.gpus / slowdown.predicted;
    rates.high += job.gpus / slowdown.low;
    group.apart_w += job.gpus * (job.power_w / slowdown.predicted + (1 - 1 / slowdown.predicted) * freed_w);
  }
  group.saved_w = {.low = awake_w * (rates.low - group.gpus),
                   .predicted = awake_w * (rates.predicted - group.gpus),
                   .high = awake_w * (rates.high - group.gpus)};
}

/// A group before it is known whether it is possible.
Group group_of(std::span<const JobLoad> jobs, const std::vector<std::size_t>& members, const GpuFacts& gpu,
               const PackOptions& options) {
  Group group;
  group.jobs = members;
  std::vector<Demand> demands;
  for (const std::size_t job : members) {
    group.gpus = std::max(group.gpus, jobs[job].gpus);
    group.memory_gib += jobs[job].memory_gib;
    demands.push_back(demand_of(jobs[job], options.mode));
  }
  group.slowdowns = shared_slowdowns(demands, options.margin.value_or(default_margin(options.mode)));
  set_power(jobs, gpu, options, group);
  return group;
}

std::string refusal_of(std::span<const JobLoad> jobs, const Group& group, const GpuFacts& gpu,
                       const PackOptions& options) {
  const double room_gib = gpu.memory_gib - options.reserve_gib;
  if (group.memory_gib > room_gib + kTolerance) {
    return fmt::format("they need {:.4g} GiB of the {:.4g} GiB of a GPU", group.memory_gib, room_gib);
  }
  for (std::size_t i = 0; i < group.jobs.size(); ++i) {
    const double slowdown = group.slowdowns[i].predicted - 1;
    if (slowdown <= options.max_slowdown + kTolerance) continue;
    return fmt::format("{} would be {:.3g} % slower, more than {:.3g} %", jobs[group.jobs[i]].name,
                       kPctPerShare * slowdown, kPctPerShare * options.max_slowdown);
  }
  const double peak_w = peak_power_w(jobs, group, gpu, options.mode);
  if (peak_w > gpu.limit_w + kTolerance) {
    return fmt::format(
        "their kernels together would draw {:.0f} W, above the power limit of {:.0f} W: clocks would fall", peak_w,
        gpu.limit_w);
  }
  if (group.saved_w.predicted <= kTolerance) return "sharing would save nothing";
  return "";
}

std::string refusal_of_mode(const GpuFacts& gpu, SharingMode mode) {
  if (gpu.mig) {
    return "the GPUs are in MIG mode, which divides them already: give jobs instances, or switch it off "
           "(sudo nvidia-smi -mig 0)";
  }
  if (gpu.compute_mode == ComputeMode::prohibited) {
    return "the GPUs' compute mode is prohibited, which lets no process use them: sudo nvidia-smi -c DEFAULT";
  }
  if (gpu.compute_mode == ComputeMode::exclusive_process && mode == SharingMode::time_slicing) {
    return "the GPUs' compute mode is exclusive-process: a second process gets no context. Share by MPS, whose server "
           "is the only process, or sudo nvidia-smi -c DEFAULT";
  }
  return "";
}

void check(std::span<const JobLoad> jobs, const GpuFacts& gpu, const PackOptions& options) {
  if (jobs.size() > kMaxJobs) {
    throw InputError(fmt::format("there are {} jobs: pack those of one node, {} at most", jobs.size(), kMaxJobs));
  }
  if (options.max_jobs_per_gpu < 2 || options.max_jobs_per_gpu > kMaxJobsPerGpu) {
    throw InputError(fmt::format("2 to {} jobs can share a GPU, not {}", kMaxJobsPerGpu, options.max_jobs_per_gpu));
  }
  if (!(gpu.idle_w >= 0 && gpu.idle_w <= gpu.awake_w && gpu.awake_w < gpu.limit_w)) {
    throw InputError(
        fmt::format("idle power ({} W), awake power ({} W) and power limit ({} W) of the GPU must rise in this order",
                    gpu.idle_w, gpu.awake_w, gpu.limit_w));
  }
  for (const JobLoad& job : jobs) {
    if (job.memory_gib > gpu.memory_gib) {
      throw InputError(fmt::format("job {} holds {} GiB and a GPU has {} GiB: name the GPU that it was measured on",
                                   quote(job.name), job.memory_gib, gpu.memory_gib));
    }
    if (job.power_w < gpu.awake_w) {
      throw InputError(
          fmt::format("job {} draws {} W, less than a GPU with a process and no kernel ({} W): name the GPU "
                      "that it was measured on, or give its --awake-power",
                      quote(job.name), job.power_w, gpu.awake_w));
    }
  }
}

std::vector<std::size_t> members_of(std::size_t set) {
  std::vector<std::size_t> members;
  for (std::size_t job = 0; set >> job != 0; ++job) {
    if (((set >> job) & 1U) != 0) members.push_back(job);
  }
  return members;
}

/// A group as the bits of its jobs.
struct Candidate {
  std::size_t set = 0;
  double saved_w = 0;
};

/// Groups that may share, by their first job.
std::vector<std::vector<Candidate>> candidates_of(std::span<const JobLoad> jobs, const GpuFacts& gpu,
                                                  const PackOptions& options) {
  std::vector<std::vector<Candidate>> candidates(jobs.size());
  for (std::size_t set = 1; set < std::size_t{1} << jobs.size(); ++set) {
    const int size = std::popcount(set);
    if (size < 2 || size > options.max_jobs_per_gpu) continue;
    const GroupCheck checked = check_group(jobs, members_of(set), gpu, options);
    if (!checked.refused.empty()) continue;
    candidates[static_cast<std::size_t>(std::countr_zero(set))].push_back({set, checked.group.saved_w.predicted});
  }
  return candidates;
}

/// The disjoint sets that save most; together they hold all jobs.
std::vector<std::size_t> best_sets(const std::vector<std::vector<Candidate>>& candidates) {
  const std::size_t sets = std::size_t{1} << candidates.size();
  std::vector<double> saved_w(sets, 0);
  std::vector<std::size_t> chosen(sets, 0);  // the set of the first job
  for (std::size_t set = 1; set < sets; ++set) {
    const auto first = static_cast<std::size_t>(std::countr_zero(set));
    chosen[set] = std::size_t{1} << first;
    saved_w[set] = saved_w[set ^ chosen[set]];
    for (const Candidate& candidate : candidates[first]) {
      if ((candidate.set & ~set) != 0) continue;
      const double total_w = candidate.saved_w + saved_w[set ^ candidate.set];
      if (total_w <= saved_w[set] + kTolerance) continue;
      saved_w[set] = total_w;
      chosen[set] = candidate.set;
    }
  }
  std::vector<std::size_t> result;
  for (std::size_t left = sets - 1; left != 0; left ^= result.back()) result.push_back(chosen[left]);
  return result;
}

void add_sums(std::span<const JobLoad> jobs, Packing& packing) {
  for (const JobLoad& job : jobs) packing.gpus_apart += job.gpus;
  for (const Group& group : packing.groups) {
    packing.gpus_packed += group.gpus;
    packing.apart_w += group.apart_w;
    packing.saved_w.low += group.saved_w.low;
    packing.saved_w.predicted += group.saved_w.predicted;
    packing.saved_w.high += group.saved_w.high;
  }
}

}  // namespace

std::string_view name(SharingMode mode) { return mode == SharingMode::mps ? "mps" : "time-slicing"; }

double default_margin(SharingMode mode) {
  return mode == SharingMode::mps ? 1 / kPublishedMpsRate - 1 : kTimeSlicingMargin;
}

GroupCheck check_group(std::span<const JobLoad> jobs, const std::vector<std::size_t>& members, const GpuFacts& gpu,
                       const PackOptions& options) {
  GroupCheck result;
  result.group = group_of(jobs, members, gpu, options);
  result.refused = refusal_of(jobs, result.group, gpu, options);
  return result;
}

Packing pack_jobs(std::span<const JobLoad> jobs, const GpuFacts& gpu, const PackOptions& options) {
  check(jobs, gpu, options);
  Packing packing;
  packing.refused = refusal_of_mode(gpu, options.mode);
  const bool may_share = packing.refused.empty();
  std::vector<std::vector<Candidate>> candidates(jobs.size());
  if (may_share) candidates = candidates_of(jobs, gpu, options);
  for (const std::size_t set : best_sets(candidates)) {
    packing.groups.push_back(group_of(jobs, members_of(set), gpu, options));
  }
  for (std::size_t one = 0; may_share && one < jobs.size(); ++one) {
    for (std::size_t other = one + 1; other < jobs.size(); ++other) {
      GroupCheck checked = check_group(jobs, {one, other}, gpu, options);
      if (!checked.refused.empty()) packing.refusals.push_back({checked.group.jobs, std::move(checked.refused)});
    }
  }
  add_sums(jobs, packing);
  return packing;
}

}  // namespace lowgear::sharing
