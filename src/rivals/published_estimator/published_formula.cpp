#include "rivals/published_estimator/published_formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"

namespace lowgear::published_estimator {

namespace {

/// Asks for each time once, and remembers which.
class PublishedPredictor {
 public:
  PublishedPredictor(const SampledJob& job, const PublishedTimes& times) : job_(job), times_(times) {}

  [[nodiscard]] double forward_s(const std::string& function) {
    return operator_s(function, estimator::Pass::forward, 0);
  }
  [[nodiscard]] double backward_s(const std::string& function) {
    return operator_s(function, estimator::Pass::backward, 0);
  }
  [[nodiscard]] double optimizer_s(const std::string& function, std::int64_t layers) {
    return operator_s(function, estimator::Pass::forward, layers);
  }

  /// Of `elements` among `nodes` x `per_node` GPUs.
  [[nodiscard]] double collective_s(std::string_view function, std::int64_t elements, int nodes, int per_node) {
    return once(fmt::format("{} of {} elements, {} x {} GPUs", function, elements, nodes, per_node),
                [&] { return times_.collective_s(function, elements, nodes, per_node); });
  }

  [[nodiscard]] std::vector<PublishedPrediction> take_predictions() { return std::move(predictions_); }

 private:
  template <typename Time>
  [[nodiscard]] double once(const std::string& name, const Time& time) {
    if (const auto at = known_.find(name); at != known_.end()) return at->second;
    const double time_s = time();
    predictions_.push_back({name, time_s});
    return known_[name] = time_s;
  }
  [[nodiscard]] double operator_s(const std::string& function, estimator::Pass pass, std::int64_t layers);

  const SampledJob& job_;
  const PublishedTimes& times_;
  std::map<std::string, double> known_;
  std::vector<PublishedPrediction> predictions_;
};

double PublishedPredictor::operator_s(const std::string& function, estimator::Pass pass, std::int64_t layers) {
  const estimator::SampledFunction* const sampled = estimator::find_sampled_function(function);
  if (sampled == nullptr || sampled->one_pass != (layers > 0)) {
    throw InputError(fmt::format("{} is not a sampled operator; those of a layer are linear1, flash_atten and the like",
                                 quote(function)));
  }
  const estimator::SampledShape shape{job_.mp, job_.micro_batch, job_.heads, job_.sequence_length, job_.hidden, layers};
  if (!estimator::operator_of(*sampled, shape, pass, kPublishedType)) {
    throw InputError(
        fmt::format("{}: mp {} and {} heads do not divide hidden size {}", function, job_.mp, job_.heads, job_.hidden));
  }
  return once(layers > 0 ? fmt::format("{} of {} layers", function, layers)
                         : fmt::format("{} {}", function, pass == estimator::Pass::forward ? "forward" : "backward"),
              [&] { return times_.operator_s(*sampled, shape, pass); });
}

/// The composition.
class Composition {
 public:
  Composition(const SampledJob& job, const PublishedTimes& times) : job_(job), predictor_(job, times) {}

  [[nodiscard]] PublishedEstimate estimate() {
    split_layers();
    compose_stages();
    compose_update();
    const auto widest = [](PublishedStages stages, double message_s, std::size_t without) {
      for (std::size_t i = 0; i < stages.size(); ++i) stages[i] += i == without ? 0 : message_s;
      return *std::ranges::max_element(stages);
    };
    const double slots = static_cast<double>(job_.microbatches) - 1 + job_.pp;
    result_.pipeline_s =
        slots * (widest(result_.forward_s, result_.message_s, 2) + widest(result_.backward_s, result_.message_s, 0));
    result_.time_s = result_.pipeline_s + result_.gradients_s + result_.update_s;
    result_.predictions = predictor_.take_predictions();
    return std::move(result_);
  }

 private:
  void split_layers() {
    constexpr std::int64_t kExtra = 5;  // modules before and after the layers that GPT-NeoX counts among them
    const std::int64_t modules = job_.encoders + kExtra;
    const std::int64_t low = modules / job_.pp;
    result_.layers = {low + (modules % job_.pp == 0 ? 0 : 1) - 2, low, low - 3};
    if (std::ranges::any_of(result_.layers, [](std::int64_t layers) { return layers < 1; })) {
      throw InputError(
          fmt::format("the published split of {} layers over {} stages leaves one without layers; give "
                      "fewer stages (pp)",
                      job_.encoders, job_.pp));
    }
  }

  [[nodiscard]] std::int64_t activations() const { return job_.micro_batch * job_.sequence_length * job_.hidden; }

  [[nodiscard]] double tensor_sum_s() {
    if (job_.mp == 1) return 0;
    const int per_node = std::min(job_.mp, job_.gpus_per_node);
    return predictor_.collective_s("allreduce", activations(), std::max(job_.mp / per_node, 1), per_node);
  }

  void compose_stages() {
    const double sum_s = tensor_sum_s();
    double layer_forward_s = job_.fwd_syncs * sum_s;
    double layer_backward_s = job_.bwd_syncs * sum_s;
    for (const std::string& function : job_.encoder_function_list) {
      layer_forward_s += predictor_.forward_s(function);
      layer_backward_s += predictor_.backward_s(function);
    }
    layer_backward_s += layer_forward_s;
    for (std::size_t i = 0; i < result_.layers.size(); ++i) {
      result_.forward_s[i] = static_cast<double>(result_.layers[i]) * layer_forward_s;
      result_.backward_s[i] = static_cast<double>(result_.layers[i]) * layer_backward_s;
    }
    result_.forward_s[0] += predictor_.forward_s("embedding") + sum_s;
    result_.backward_s[0] += predictor_.backward_s("embedding");
    for (const std::string& function :
         {job_.layernorm_name, std::string("linear_final"), std::string("parallel_cross_entropy_128")}) {
      result_.forward_s[2] += predictor_.forward_s(function);
      result_.backward_s[2] += predictor_.backward_s(function);
    }
    if (job_.pp == 1) return;
    const bool crosses_nodes = std::int64_t{job_.mp} * job_.dp * job_.pp >= job_.gpus_per_node;
    result_.message_s =
        predictor_.collective_s("p2p", activations() / job_.mp, crosses_nodes ? 2 : 1, crosses_nodes ? 1 : 2);
  }

  /// Parameters of one rank of the first stage, those in the middle, and the last.
  [[nodiscard]] std::array<std::int64_t, 3> parameters() const {
    const std::int64_t dim = job_.hidden;
    const std::int64_t layer = 4 * dim + 3 * dim * (dim + 1) / job_.mp + dim * (dim + 1) / job_.mp +
                               4 * dim * (dim + 1) / job_.mp + dim * (4 * dim + 1) / job_.mp;
    const std::int64_t table = estimator::sampled_vocabulary(job_.mp) * dim;
    return {table + result_.layers[0] * layer, result_.layers[1] * layer, result_.layers[2] * layer + 2 * dim + table};
  }

  /// `elements` in buckets, one after another.
  [[nodiscard]] double buckets_s(std::string_view function, std::int64_t elements) {
    const int per_node = std::max(job_.gpus_per_node / job_.mp, 1);
    const int nodes = std::max(job_.dp / per_node, 1);
    const std::int64_t full = elements / job_.comm_bucket;
    const std::int64_t rest = elements % job_.comm_bucket;
    double time_s = 0;
    if (full > 0) {
      time_s += static_cast<double>(full) * predictor_.collective_s(function, job_.comm_bucket, nodes, per_node);
    }
    if (rest > 0) time_s += predictor_.collective_s(function, rest, nodes, per_node);
    return time_s;
  }

  void compose_update() {
    if (job_.dp == 1) return;
    const std::array<std::int64_t, 3> of_stages = parameters();
    const std::array<std::string, 3> optimizers{"firstStage_optimizer", "middleStage_optimizer", "lastStage_optimizer"};
    result_.gradients_s = buckets_s("allreduce_large", of_stages[0]);
    for (std::size_t i = 0; i < of_stages.size(); ++i) {
      const double gather_s = buckets_s("allgather_large", of_stages[i] / job_.dp);
      const double optimizer_s = predictor_.optimizer_s(optimizers[i], result_.layers[i]);
      result_.update_s = std::max(result_.update_s, gather_s + optimizer_s);
    }
  }

  const SampledJob& job_;
  PublishedPredictor predictor_;
  PublishedEstimate result_;
};

}  // namespace

PublishedEstimate published_estimate(const SampledJob& job, const PublishedTimes& times) {
  return Composition(job, times).estimate();
}

PublishedEstimate published_estimate(const SampledJob& job, const PublishedSamples& samples) {
  return published_estimate(job, RegressedTimes(job.gpu_name, samples));
}

namespace {

/// Features of an operator for the published regressors.
std::vector<float> published_features(const estimator::SampledFunction& function, const estimator::SampledShape& shape,
                                      const estimator::Operator& op) {
  std::vector<std::int64_t> values(std::begin(op.dims), std::end(op.dims));
  if (function.kind == estimator::OperatorKind::optimizer) values = {shape.ranks, shape.hidden, shape.layers};
  if (function.kind == estimator::OperatorKind::attention_mask) values[3] = shape.hidden;
  if (function.kind == estimator::OperatorKind::fused_softmax)
    values = {op.dims[0] * op.dims[1], op.dims[2], op.dims[3]};
  return {values.begin(), values.end()};
}

}  // namespace

RegressedTimes::RegressedTimes(std::string gpu_name, const PublishedSamples& samples)
    : gpu_name_(std::move(gpu_name)),
      samples_(samples),
      operators_(samples.operator_settings, samples.operator_settings_source),
      collectives_(samples.collective_settings, samples.collective_settings_source) {}

const estimator::SampleFile* RegressedTimes::find(std::string_view function,
                                                  const std::optional<estimator::RankGroup>& group) const {
  const auto at = std::ranges::find_if(samples_.files, [&](const estimator::SampleFile& file) {
    return file.name == estimator::SampleFileName{gpu_name_, std::string(function), kPublishedType, group};
  });
  return at == samples_.files.end() ? nullptr : &*at;
}

void RegressedTimes::fail_without(std::string_view function, std::string_view group) const {
  throw InputError(fmt::format("there is no sampling file {}_{}_fp16{}.csv; sample it, or change the job",
                               printable(gpu_name_), printable(function), group));
}

double RegressedTimes::operator_s(const estimator::SampledFunction& function, const estimator::SampledShape& shape,
                                  estimator::Pass pass) const {
  const estimator::SampleFile* const file = find(function.name, std::nullopt);
  if (file == nullptr) fail_without(function.name, "");
  const estimator::OperatorSamples samples = parse_operator_samples(file->text, file->source, function, kPublishedType);
  const auto features = [&](const estimator::SampledShape& of) {
    return published_features(function, of, *operator_of(function, of, pass, kPublishedType));
  };
  const std::vector<float> point = features(shape);
  estimator::FeatureTable table(point.size());
  std::vector<double> times_us;
  for (const estimator::OperatorSample& row : samples.rows) {
    table.add(features(row.shape));
    times_us.push_back(1e6 * (pass == estimator::Pass::forward ? row.forward_s : row.backward_s));
  }
  const std::string_view of_pass = pass == estimator::Pass::forward ? "fwd" : "bwd";
  const TunedRegressor& regressor = operators_.find(function.name, kPublishedType, function.one_pass ? "dur" : of_pass);
  return 1e-6 * predict(regressor, table, times_us, point);
}

double RegressedTimes::collective_s(std::string_view function, std::int64_t elements, int nodes, int per_node) const {
  const estimator::SampleFile* file = find(function, estimator::RankGroup{nodes * per_node, per_node});
  const bool pooled = file == nullptr;
  if (pooled) file = find(function, std::nullopt);
  if (pooled && file == nullptr) fail_without(function, fmt::format("_{}_{}", nodes, per_node));
  const auto features = [pooled](double shape, int of_nodes, int of_node) {
    std::vector<float> values{static_cast<float>(shape)};
    if (pooled) values.insert(values.end(), {static_cast<float>(of_nodes), static_cast<float>(of_node)});
    return values;
  };
  const estimator::CollectiveSamples samples =
      parse_collective_samples(file->text, file->source, *estimator::sampled_collective(function), kPublishedType);
  const std::vector<float> point = features(static_cast<double>(elements), nodes, per_node);
  estimator::FeatureTable table(point.size());
  std::vector<double> times_us;
  for (const estimator::CollectiveSample& row : samples.rows) {
    table.add(features(row.elements, row.group.ranks / row.group.ranks_per_node, row.group.ranks_per_node));
    times_us.push_back(1e6 * row.time_s);
  }
  const TunedRegressor& regressor = pooled ? collectives_.find(function, kPublishedType, 0, 0)
                                           : collectives_.find(function, kPublishedType, nodes, per_node);
  return 1e-6 * predict(regressor, table, times_us, point);
}

}  // namespace lowgear::published_estimator
