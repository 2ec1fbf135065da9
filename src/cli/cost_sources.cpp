#include "cli/cost_sources.h"

#include "cli/sample_folder.h"

namespace lowgear {

JobCosts::JobCosts(const TrainingJob& job, const std::string& folder) : data_sheet_(job.gpu), links_(job.cluster) {
  if (folder.empty()) return;
  const std::vector<SampleFile> files = files_of_gpu(read_sample_folder(folder), job.gpu, folder);
  operators_.emplace(files, job.gpu, data_sheet_);
  collectives_.emplace(files, job.gpu, links_);
}

CostSources JobCosts::sources() const {
  if (!operators_) return {data_sheet_, links_};
  return {*operators_, *collectives_};
}

std::vector<std::string> JobCosts::notes() const {
  if (!operators_) return {};
  std::vector<std::string> notes = operators_->notes();
  const std::vector<std::string>& collectives = collectives_->notes();
  notes.insert(notes.end(), collectives.begin(), collectives.end());
  return notes;
}

}  // namespace lowgear
