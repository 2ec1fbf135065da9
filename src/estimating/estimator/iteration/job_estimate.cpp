#include "estimating/estimator/iteration/job_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

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

JobEstimate estimate_job(TrainingJob job, const SampleSet& samples) {
  const JobCosts costs(job, samples);
  JobEstimate result{.job = std::move(job), .memory = {}, .overflow = {}, .iteration = {}};
  result.memory = estimate_memory(result.job);
  result.overflow = explain_overflow(result.job, result.memory);
  result.iteration = estimate_iteration(result.job, costs.sources());
  for (std::string& note : costs.notes()) result.iteration.notes.push_back(std::move(note));
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

profile::StageColumns emitted_columns(const JobEstimate& estimate) {
  const TrainingJob& job = estimate.job;
  profile::StageColumns columns{.activation_bytes = {}, .transfer_s = messages_s(estimate)};
  if (job.schedule == "1f1b" && job.parallel.virtual_stages == 1) {
    columns.activation_bytes = activation_bytes_of_ranks(job, estimate.memory);
  }
  return columns;
}

}  // namespace lowgear::estimator
