#include "estimating/estimator/iteration/job_estimate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/memory/activation_memory.h"
#include "estimating/estimator/work/stage_work.h"

namespace lowgear::estimator {

JobCosts::JobCosts(const TrainingJob& job, const SampleSet& samples) : data_sheet_(job.gpu), links_(job.cluster) {
  if (samples.folder.empty()) return;
  const std::vector<SampleFile> files = files_of_gpu(samples.files, job.gpu, samples.folder);
  const std::string& device = files.front().name.gpu;
  if (!gpu_of_name(device)) {
    notes_.push_back(fmt::format("{}: its samples are of {}, which is not in the catalogue; they are used for {}",
                                 samples.folder, device, job.gpu.name));
  }
  operators_.emplace(files, job.gpu, data_sheet_);
  collectives_.emplace(files, job.gpu, links_);
}

CostSources JobCosts::sources() const {
  if (!operators_) return {data_sheet_, links_};
  return {*operators_, *collectives_};
}

std::vector<std::string> JobCosts::notes() const {
  if (!operators_) return {};
  std::vector<std::string> notes = notes_;
  for (const auto& more : {operators_->notes(), collectives_->notes()}) {
    notes.insert(notes.end(), more.begin(), more.end());
  }
  return notes;
}

namespace {

/// The estimated job where its stack is not a row of the table, then the same job on every stack of the table.
std::vector<StackEstimate> estimate_stacks(const JobEstimate& estimate, const CostSources& sources) {
  std::vector<StackEstimate> estimates;
  TrainingJob job = estimate.job;
  const StackEstimate own{describe(job.stack), estimate.iteration.time_s, estimate.memory.peak(),
                          estimate.memory.within_capacity()};
  if (own.name != job.stack.name) estimates.push_back(own);
  for (const SoftwareStack& stack : software_stacks()) {
    if (stack.name == own.name) {
      estimates.push_back(own);
      continue;
    }
    job.stack = stack;
    const MemoryEstimate memory = estimate_memory(job);
    estimates.push_back(
        {std::string(stack.name), estimate_iteration(job, sources).time_s, memory.peak(), memory.within_capacity()});
  }
  return estimates;
}

}  // namespace

JobEstimate estimate_job(TrainingJob job, const SampleSet& samples) {
  const JobCosts costs(job, samples);
  JobEstimate result{.job = std::move(job), .memory = {}, .overflow = {}, .iteration = {}, .stacks = {}};
  result.memory = estimate_memory(result.job);
  result.iteration = estimate_iteration(result.job, costs.sources());
  // Before other jobs are estimated, whose notes are not this one's.
  for (std::string& note : costs.notes()) result.iteration.notes.push_back(std::move(note));
  result.overflow = explain_overflow(result.job, result.memory, [&costs](const TrainingJob& changed) {
    return estimate_iteration(changed, costs.sources()).time_s;
  });
  result.stacks = estimate_stacks(result, costs.sources());
  return result;
}

namespace {

/// From each stage to the next one; empty where messages run concurrently with computation, or there are none.
std::vector<double> messages_s(const JobEstimate& estimate) {
  std::vector<double> times_s;
  if (estimate.job.overlap.pipeline || estimate.job.parallel.pp == 1) return times_s;
  for (std::size_t stage = 0; stage + 1 < estimate.iteration.stages.size(); ++stage) {
    double& time_s = times_s.emplace_back(0);
    for (const CostItem& item : estimate.iteration.stages[stage].forward_items) {
      if (item.name == name(WorkPart::pipeline)) time_s += item.cost.time_s();
    }
  }
  return times_s;
}

}  // namespace

profile::ProfileFile emitted_file(const JobEstimate& estimate) {
  const TrainingJob& job = estimate.job;
  profile::ProfileFile file{.profile = emitted_profile(job.gpu, estimate.iteration)};
  file.columns.transfer_s = messages_s(estimate);
  file.columns.blocking_power_w.assign(estimate.iteration.stages.size(), job.gpu.power.blocking_w);
  if (job.schedule == "1f1b" && job.parallel.virtual_stages == 1) {
    file.columns.activation_bytes = activation_bytes_of_ranks(job, estimate.memory);
    for (double& bytes : file.columns.activation_bytes) bytes = std::ceil(bytes);
  }
  for (const profile::StageOp& op : file.profile.ops()) {
    for (const profile::Measurement& row : op.measurements) {
      file.predicted.push_back({.cell = {op.stage, op.kind, row.clock_mhz}});
    }
  }
  return file;
}

}  // namespace lowgear::estimator
