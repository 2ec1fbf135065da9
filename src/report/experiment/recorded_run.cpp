#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/core/error.h"
#include "planning/profile/recorded_energy.h"
#include "planning/profile/recording_check.h"
#include "report/experiment/run_record.h"

namespace lowgear::experiment {
namespace {

using profile::EnergySample;
using profile::RecordedIteration;
using profile::Recording;

/// The counter's value at `time_s`; empty outside of the samples that have one.
std::optional<double> energy_at(const std::vector<EnergySample>& samples, double time_s) {
  const auto after = std::ranges::lower_bound(samples, time_s, {}, &EnergySample::time_s);
  const auto next = std::find_if(after, samples.end(), [](const EnergySample& sample) { return sample.energy_j; });
  if (next == samples.end()) return std::nullopt;
  if (next->time_s == time_s) return next->energy_j;
  const auto before = std::find_if(std::make_reverse_iterator(after), samples.rend(),
                                   [](const EnergySample& sample) { return sample.energy_j; });
  if (before == samples.rend()) return std::nullopt;
  const double share = (time_s - before->time_s) / (next->time_s - before->time_s);
  return *before->energy_j + share * (*next->energy_j - *before->energy_j);
}

/// From an iteration's start to the next one's, or to its end where none follows at once.
struct Span {
  double start_s = 0;
  double end_s = 0;
};

std::map<int, Span> spans_of(const Recording& rank) {
  std::map<int, Span> spans;
  for (std::size_t i = 0; i < rank.iterations.size(); ++i) {
    const RecordedIteration& iteration = rank.iterations[i];
    Span span{iteration.start_s, iteration.end_s};
    if (i + 1 < rank.iterations.size() && rank.iterations[i + 1].number == iteration.number + 1) {
      span.end_s = rank.iterations[i + 1].start_s;
    }
    spans.insert_or_assign(iteration.number, span);
  }
  return spans;
}

std::optional<double> energy_of(const Recording& rank, const Span& span) {
  if (rank.is_set_aside(span.start_s, span.end_s)) return std::nullopt;
  const auto start_j = energy_at(rank.samples, span.start_s);
  const auto end_j = energy_at(rank.samples, span.end_s);
  return start_j && end_j ? std::optional(*end_j - *start_j) : std::nullopt;
}

/// Warns of data that is left out of the recordings of a part, and of ranks that are missing or share a GPU.
void warn_of_ranks(const std::vector<Recording>& ranks, RunRecord& run) {
  std::map<std::string, std::vector<int>> ranks_of_gpu;
  for (std::string& line : profile::uncompared_energies(ranks)) {
    run.warnings.push_back(fmt::format("{}: {}", run.source, line));
  }
  for (const Recording& rank : ranks) {
    run.warnings.insert(run.warnings.end(), rank.warnings.begin(), rank.warnings.end());
    if (!rank.gpu_uuid.empty()) ranks_of_gpu[rank.gpu_uuid].push_back(rank.rank);
  }
  for (auto& [uuid, sharing] : ranks_of_gpu) {
    if (sharing.size() < 2) continue;
    std::ranges::sort(sharing);
    run.warnings.push_back(fmt::format("{}: {} ran on one GPU ({}), whose energy is counted once", run.source,
                                       profile::ranks_text(sharing), printable(uuid)));
  }
  const std::string missing = profile::missing_text(ranks);
  if (missing.empty()) return;
  run.warnings.push_back(fmt::format("{}: {}: time and energy are those of the other {} rank{}", run.source, missing,
                                     ranks.size(), ranks.size() == 1 ? "" : "s"));
}

/// By rank: the iterations that all ranks of a part have.
std::vector<std::map<int, Span>> common_spans(const std::vector<Recording>& ranks) {
  std::vector<std::map<int, Span>> spans;
  for (const Recording& rank : ranks) spans.push_back(spans_of(rank));
  std::map<int, std::size_t> ranks_with;
  for (const auto& of_rank : spans) {
    for (const auto& [number, span] : of_rank) ++ranks_with[number];
  }
  for (auto& of_rank : spans) {
    std::erase_if(of_rank, [&](const auto& entry) { return ranks_with[entry.first] < ranks.size(); });
  }
  return spans;
}

/// The rank that takes longest for all of them, whose times are those of the job. The longest times of each iteration
/// would add up to more, as an iteration does not begin on all ranks at once.
std::size_t longest_rank(const std::vector<std::map<int, Span>>& spans) {
  const auto total_s = [](const std::map<int, Span>& of_rank) {
    double time_s = 0;
    for (const auto& [number, span] : of_rank) time_s += span.end_s - span.start_s;
    return time_s;
  };
  return static_cast<std::size_t>(std::ranges::max_element(spans, {}, total_s) - spans.begin());
}

/// Of the iterations that any of these ranks has begun. A resumed job's are numbered on from its checkpoint.
int first_number(const std::vector<Recording>& ranks) {
  int first = profile::kMaxIteration;
  for (const Recording& rank : ranks) {
    for (const RecordedIteration& iteration : rank.iterations) first = std::min(first, iteration.number);
  }
  return first;
}

/// Adds the iterations that all ranks of a part have, and their GPUs.
void add_part(const std::vector<Recording>& ranks, RunRecord& run) {
  const std::vector<std::map<int, Span>> spans = common_spans(ranks);
  const std::int64_t offset = (run.steps.empty() ? 0 : run.steps.back().number + 1) - first_number(ranks);
  for (const auto& [number, span] : spans[longest_rank(spans)]) {
    const double time_s = span.end_s - span.start_s;
    RunStep step{.number = offset + number, .work = 1, .time_s = time_s, .energy_j = 0, .loss = std::nullopt};
    std::set<std::string> counted;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      // Ranks that share a GPU share its counter.
      if (!counted.insert(ranks[i].gpu_uuid).second && !ranks[i].gpu_uuid.empty()) continue;
      const auto energy_j = energy_of(ranks[i], spans[i].at(number));
      step.energy_j = step.energy_j && energy_j ? std::optional(*step.energy_j + *energy_j) : std::nullopt;
    }
    run.steps.push_back(step);
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].gpu_uuid.empty() || !ranks[i].clock) continue;
    const auto& [boot_id, start_s] = *ranks[i].clock;
    UsedGpu gpu{.uuid = ranks[i].gpu_uuid, .boot_id = boot_id, .uses = {}};
    for (const auto& [number, span] : spans[i]) {
      gpu.uses.push_back({.step = offset + number, .begin_s = start_s + span.start_s, .end_s = start_s + span.end_s});
    }
    run.gpus.push_back(std::move(gpu));
  }
}

template <typename Value>
std::optional<double> mean_of(std::span<const Recording> recordings, std::optional<Value> EnergySample::*member) {
  double sum = 0;
  double count = 0;
  for (const Recording& rank : recordings) {
    for (const EnergySample& sample : rank.samples) {
      if (!(sample.*member)) continue;
      sum += static_cast<double>(*(sample.*member));
      ++count;
    }
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

/// The first and last iteration are only measured up to where samples begin and end: those that lack energy are left
/// out there, not in the middle.
void trim(RunRecord& run) {
  const auto has_energy = [](const RunStep& step) { return step.energy_j.has_value(); };
  if (std::ranges::none_of(run.steps, has_energy)) return;
  run.steps.erase(std::find_if(run.steps.rbegin(), run.steps.rend(), has_energy).base(), run.steps.end());
  run.steps.erase(run.steps.begin(), std::ranges::find_if(run.steps, has_energy));
}

/// Iterations in a time whose energies are not known, or that cannot be.
void leave_out_unknown(RunRecord& run) {
  const auto has_energy = [](const RunStep& step) { return step.energy_j.has_value(); };
  const std::size_t all = run.steps.size();
  if (std::ranges::any_of(run.steps, has_energy)) {
    std::erase_if(run.steps, [&](const RunStep& step) { return !has_energy(step); });
  }
  if (run.steps.size() < all) {
    run.warnings.push_back(fmt::format("{}: {} of {} iterations have no energy that is known, and are left out",
                                       run.source, all - run.steps.size(), all));
  }
  leave_out_doubtful(run);
}

}  // namespace

RunRecord recorded_run(std::span<const Recording> recordings, const std::string& source) {
  RunRecord run;
  run.source = source;
  run.unit = WorkUnit::iteration;
  std::map<int, std::vector<Recording>> parts;
  for (const Recording& rank : recordings) {
    const Basis basis = rank.simulated ? Basis::simulated : Basis::measured;
    if (run.basis && *run.basis != basis) {
      throw_input_error({source, 0, 0}, "some ranks ran on simulated GPUs and others not, which do not add up");
    }
    run.basis = basis;
    if (!rank.invalid.empty()) run.invalid = rank.invalid;
    parts[rank.part].push_back(rank);
    settle_energy(parts[rank.part].back());
  }
  for (const auto& [part, ranks] : parts) {
    warn_of_ranks(ranks, run);
    add_part(ranks, run);
  }
  if (run.steps.empty()) {
    throw_input_error({source, 0, 0}, "holds no iteration that every rank has recorded",
                      "name the whole recording, with all its ranks");
  }
  const std::size_t all = run.steps.size();
  trim(run);
  if (run.steps.size() < all) {
    run.warnings.push_back(fmt::format("{}: {} of {} iterations at its ends have no energy and are left out", source,
                                       all - run.steps.size(), all));
  }
  leave_out_unknown(run);
  run.sm_clock_mhz = mean_of(recordings, &EnergySample::sm_mhz);
  run.temperature_c = mean_of(recordings, &EnergySample::temperature_c);
  return run;
}

}  // namespace lowgear::experiment
