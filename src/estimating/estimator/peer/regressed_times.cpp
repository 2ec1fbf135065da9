#include "estimating/estimator/peer/regressed_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/core/error.h"

namespace lowgear::estimator {
namespace {

/// What its regressors see of an operator.
std::vector<float> peer_features(const SampledFunction& function, const SampledShape& shape, const Operator& op) {
  std::vector<std::int64_t> values(std::begin(op.dims), std::end(op.dims));
  if (function.kind == OperatorKind::optimizer) values = {shape.ranks, shape.hidden, shape.layers};
  if (function.kind == OperatorKind::attention_mask) values[3] = shape.hidden;
  if (function.kind == OperatorKind::fused_softmax) values = {op.dims[0] * op.dims[1], op.dims[2], op.dims[3]};
  return {values.begin(), values.end()};
}

}  // namespace

RegressedTimes::RegressedTimes(std::string gpu_name, const PeerSamples& samples)
    : gpu_name_(std::move(gpu_name)),
      samples_(samples),
      operators_(samples.operator_settings, samples.operator_settings_source),
      collectives_(samples.collective_settings, samples.collective_settings_source) {}

const SampleFile* RegressedTimes::find(std::string_view function, const std::optional<RankGroup>& group) const {
  const auto at = std::ranges::find_if(samples_.files, [&](const SampleFile& file) {
    return file.name == SampleFileName{gpu_name_, std::string(function), kPeerType, group};
  });
  return at == samples_.files.end() ? nullptr : &*at;
}

void RegressedTimes::fail_without(std::string_view function, std::string_view group) const {
  throw InputError(fmt::format("there is no sampling file {}_{}_fp16{}.csv; sample it, or change the job",
                               printable(gpu_name_), printable(function), group));
}

double RegressedTimes::operator_s(const SampledFunction& function, const SampledShape& shape, Pass pass) const {
  const SampleFile* const file = find(function.name, std::nullopt);
  if (file == nullptr) fail_without(function.name, "");
  const OperatorSamples samples = parse_operator_samples(file->text, file->source, function, kPeerType);
  const auto features = [&](const SampledShape& of) {
    return peer_features(function, of, *operator_of(function, of, pass, kPeerType));
  };
  const std::vector<float> point = features(shape);
  FeatureTable table(point.size());
  std::vector<double> times_us;
  for (const OperatorSample& row : samples.rows) {
    table.add(features(row.shape));
    times_us.push_back(1e6 * (pass == Pass::forward ? row.forward_s : row.backward_s));
  }
  const std::string_view of_pass = pass == Pass::forward ? "fwd" : "bwd";
  const TunedRegressor& regressor = operators_.find(function.name, kPeerType, function.one_pass ? "dur" : of_pass);
  return 1e-6 * predict(regressor, table, times_us, point);
}

double RegressedTimes::collective_s(std::string_view function, std::int64_t elements, int nodes, int per_node) const {
  const SampleFile* file = find(function, RankGroup{nodes * per_node, per_node});
  const bool pooled = file == nullptr;
  if (pooled) file = find(function, std::nullopt);
  if (pooled && file == nullptr) fail_without(function, fmt::format("_{}_{}", nodes, per_node));
  const auto features = [pooled](double shape, int of_nodes, int of_node) {
    std::vector<float> values{static_cast<float>(shape)};
    if (pooled) values.insert(values.end(), {static_cast<float>(of_nodes), static_cast<float>(of_node)});
    return values;
  };
  const CollectiveSamples samples =
      parse_collective_samples(file->text, file->source, *sampled_collective(function), kPeerType);
  const std::vector<float> point = features(static_cast<double>(elements), nodes, per_node);
  FeatureTable table(point.size());
  std::vector<double> times_us;
  for (const CollectiveSample& row : samples.rows) {
    table.add(features(row.elements, row.group.ranks / row.group.ranks_per_node, row.group.ranks_per_node));
    times_us.push_back(1e6 * row.time_s);
  }
  const TunedRegressor& regressor =
      pooled ? collectives_.find(function, kPeerType, 0, 0) : collectives_.find(function, kPeerType, nodes, per_node);
  return 1e-6 * predict(regressor, table, times_us, point);
}

}  // namespace lowgear::estimator
