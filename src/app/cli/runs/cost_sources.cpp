#include "app/cli/runs/cost_sources.h"

#include <fmt/format.h>

#include "app/cli/runs/sample_folder.h"

namespace lowgear {

JobCosts::JobCosts(const TrainingJob& job, const std::string& folder) : data_sheet_(job.gpu), links_(job.cluster) {
  if (folder.empty()) return;
  const std::vector<SampleFile> files = files_of_gpu(read_sample_folder(folder), job.gpu, folder);
  const std::string& device = files.front().name.gpu;
  if (!gpu_of_driver_name(device)) {
    notes_.push_back(fmt::format("{}: its samples are of {}, which is not in the catalogue; they are used for {}",
                                 folder, device, job.gpu.name));
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

}  // namespace lowgear
