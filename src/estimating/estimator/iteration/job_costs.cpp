#include "estimating/estimator/iteration/job_costs.h"

#include <fmt/format.h>

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

}  // namespace lowgear::estimator
