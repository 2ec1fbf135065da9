#include "app/cli/text/peer_estimate_text.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "app/cli/runs/sample_folder.h"
#include "app/cli/terminal/table.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "estimating/estimator/peer/published_examples.h"

namespace lowgear::cli {
namespace {

constexpr std::array<std::string_view, 3> kStages{"first", "middle", "last"};

/// A folder that the job names: seen from the job's own folder or, as that tool does, from the current one.
std::filesystem::path named_folder(const std::filesystem::path& from, const std::string& name, const char* key) {
  std::error_code failure;
  for (const std::filesystem::path& folder : {from / name, std::filesystem::path(name)}) {
    if (std::filesystem::is_directory(folder, failure)) return folder;
  }
  throw InputError(fmt::format(
      "{}: there is no folder {}, neither beside the job nor in the current folder; give the folder that has the "
      "folders operator and nccl with --operators",
      key, quote(name)));
}

std::string milliseconds(double time_s) { return fmt::format("{:.3f}", time_s * 1e3); }

}  // namespace

std::string peer_estimate_text(const estimator::PeerEstimate& estimate) {
  std::string text = fmt::format(
      "iteration {:.4f} s by the published estimator's formula (estimated)\n"
      "  pipeline {:.4f} s, gradients {:.4f} s, update {:.4f} s\n\n",
      estimate.time_s, estimate.pipeline_s, estimate.gradients_s, estimate.update_s);
  Table stages({{"stage", Table::Align::left}, {"layers"}, {"forward (ms)"}, {"backward (ms)"}});
  for (std::size_t i = 0; i < kStages.size(); ++i) {
    stages.add_row({std::string(kStages[i]), fmt::to_string(estimate.layers[i]), milliseconds(estimate.forward_s[i]),
                    milliseconds(estimate.backward_s[i])});
  }
  Table predictions({{"predicted", Table::Align::left}, {"time (ms)"}});
  for (const estimator::PeerPrediction& prediction : estimate.predictions) {
    predictions.add_row({prediction.name, milliseconds(prediction.time_s)});
  }
  return text + stages.text() + "\n" + predictions.text();
}

Json peer_estimate_json(const estimator::PeerEstimate& estimate) {
  Json json{
      {"format", "lowgear.published_estimate/1"}, {"time_s", estimate.time_s},     {"pipeline_s", estimate.pipeline_s},
      {"gradients_s", estimate.gradients_s},      {"update_s", estimate.update_s}, {"message_s", estimate.message_s}};
  for (std::size_t i = 0; i < kStages.size(); ++i) {
    json["stages"][kStages[i]] = {
        {"layers", estimate.layers[i]}, {"forward_s", estimate.forward_s[i]}, {"backward_s", estimate.backward_s[i]}};
  }
  for (const estimator::PeerPrediction& prediction : estimate.predictions) {
    json["predictions"].push_back({{"name", prediction.name}, {"time_s", prediction.time_s}});
  }
  return json;
}

estimator::PeerEstimate estimate_as_published(const std::string& job_file, const std::string& folder) {
  if (job_file.empty()) {
    throw InputError("--peer-formula: there is no job; give a file of the published estimator with --job");
  }
  const std::string text = read_file(job_file);
  if (!estimator::is_sampled_job(text, job_file)) {
    throw_input_error({job_file, 0, 0}, "is not a job of the published estimator: it has no training_config",
                      "leave --peer-formula out");
  }
  return estimate_as_published(estimator::parse_sampled_job(text, job_file),
                               std::filesystem::path(job_file).parent_path(), folder);
}

estimator::PeerEstimate estimate_as_published(const estimator::SampledJob& job, const std::filesystem::path& from,
                                              const std::string& folder) {
  const std::filesystem::path given(folder);
  if (!folder.empty()) return peer_estimate(job, read_peer_samples(job, given / "operator", given / "nccl"));
  if (const auto packaged = estimator::packaged_times(job.operator_data_folder)) return peer_estimate(job, *packaged);
  const std::filesystem::path operators = named_folder(from, job.operator_data_folder, "operator_data_folder");
  return peer_estimate(job,
                       read_peer_samples(job, operators, named_folder(from, job.nccl_data_folder, "nccl_data_folder")));
}

}  // namespace lowgear::cli
