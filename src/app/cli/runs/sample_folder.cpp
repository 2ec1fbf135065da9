#include "app/cli/runs/sample_folder.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "estimating/estimator/peer/peer_formula.h"

namespace lowgear::cli {
namespace {

/// Appends the sampling files that lie in the folder itself.
void append_files(const std::filesystem::path& folder, std::vector<estimator::SampleFile>& files) {
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    std::optional<estimator::SampleFileName> name = estimator::parse_sample_file_name(entry.path().filename().string());
    if (!name || !entry.is_regular_file(failure)) continue;
    files.push_back({entry.path().string(), std::move(*name), read_file(entry.path(), kMaxFileBytes)});
  }
  if (failure) {
    throw_input_error({folder.string(), 0, 0}, "cannot be read: " + failure.message(),
                      "give a folder of sampling files");
  }
}

void sort(std::vector<estimator::SampleFile>& files) { std::ranges::sort(files, {}, &estimator::SampleFile::source); }

}  // namespace

std::vector<estimator::SampleFile> read_sample_folder(const std::filesystem::path& folder) {
  std::vector<estimator::SampleFile> files;
  append_files(folder, files);
  for (const char* const below : {"operator", "nccl", "gloo"}) {
    const std::filesystem::path inner = folder / below;
    if (std::filesystem::is_directory(inner)) append_files(inner, files);
  }
  if (files.empty()) {
    throw_input_error({folder.string(), 0, 0}, "has no sampling files",
                      "they are named like NVIDIAA100-SXM4-80GB_linear1_fp16.csv; `lowgear sample` writes them");
  }
  sort(files);
  return files;
}

estimator::SampleSet load_samples(const std::string& folder) {
  if (folder.empty()) return {};
  return {folder, read_sample_folder(folder)};
}

estimator::PeerSamples read_peer_samples(const estimator::SampledJob& job, const std::filesystem::path& operators,
                                         const std::filesystem::path& collectives) {
  estimator::PeerSamples samples;
  append_files(operators, samples.files);
  append_files(collectives, samples.files);
  sort(samples.files);
  const std::string settings = job.gpu_name + ".csv";
  samples.operator_settings_source = (operators / settings).string();
  samples.operator_settings = read_file(samples.operator_settings_source);
  samples.collective_settings_source = (collectives / settings).string();
  samples.collective_settings = read_file(samples.collective_settings_source);
  return samples;
}

}  // namespace lowgear::cli
