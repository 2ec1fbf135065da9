#include "estimating/estimator/peer/sampled_job.h"

#include "base/core/formats/yaml.h"
#include "planning/schedule/microbatches.h"

namespace lowgear::estimator {
namespace {

constexpr std::int64_t kMaxRanks = 65'536;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;
constexpr std::int64_t kMaxBucket = std::int64_t{1} << 40;
constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxSyncs = 16;

std::vector<std::string> texts(const YamlView& list) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i < list.size(); ++i) values.push_back(list.at(i).text());
  if (values.empty()) list.fail("an operator is missing here", "name those of the sampling files");
  return values;
}

int small(const YamlView& value, std::int64_t low, std::int64_t high) {
  return static_cast<int>(value.integer_in(low, high));
}

void read_training_config(const YamlView& list, SampledJob& job) {
  constexpr std::size_t kNumbers = 9;
  if (list.size() != kNumbers) {
    list.fail("expected 9 numbers",
              "give pp, mp, dp, micro-batch, heads, sequence length, hidden size, micro-batches per update, GPUs per "
              "node");
  }
  job.pp = small(list.at(0), 1, kMaxRanks);
  job.mp = small(list.at(1), 1, kMaxRanks);
  job.dp = small(list.at(2), 1, kMaxRanks);
  job.micro_batch = list.at(3).integer_in(1, kMaxSize);
  job.heads = list.at(4).integer_in(1, kMaxSize);
  job.sequence_length = list.at(5).integer_in(1, kMaxSize);
  job.hidden = list.at(6).integer_in(1, kMaxSize);
  job.microbatches = list.at(7).integer_in(1, schedule::kMaxMicrobatches);
  job.gpus_per_node = small(list.at(8), 1, kMaxRanks);
}

}  // namespace

bool is_sampled_job(std::string_view yaml, const std::string& source) {
  return YamlView::parse(yaml, source).has("training_config");
}

SampledJob parse_sampled_job(std::string_view yaml, const std::string& source) {
  const YamlView map = YamlView::parse(yaml, source);
  map.require_only({"gpu_name", "operator_data_folder", "nccl_data_folder", "training_config", "comm_bucket",
                    "encoders", "function_list", "encoder_function_list", "layernorm_name", "fwd_syncs", "bwd_syncs"});
  SampledJob job;
  job.gpu_name = map.at("gpu_name").text();
  job.operator_data_folder = map.at("operator_data_folder").text();
  job.nccl_data_folder = map.at("nccl_data_folder").text();
  read_training_config(map.at("training_config"), job);
  job.comm_bucket = map.at("comm_bucket").integer_in(1, kMaxBucket);
  job.encoders = map.at("encoders").integer_in(1, kMaxLayers);
  job.function_list = texts(map.at("function_list"));
  job.encoder_function_list = texts(map.at("encoder_function_list"));
  job.layernorm_name = map.at("layernorm_name").text();
  job.fwd_syncs = small(map.at("fwd_syncs"), 0, kMaxSyncs);
  job.bwd_syncs = small(map.at("bwd_syncs"), 0, kMaxSyncs);
  return job;
}

}  // namespace lowgear::estimator
