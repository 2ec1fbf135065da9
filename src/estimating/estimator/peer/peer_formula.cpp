#include "estimating/estimator/peer/peer_formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "estimating/estimator/peer/regressed_times.h"

namespace lowgear::estimator {
namespace {

/// Asks for each time once, and remembers which.
class PeerPredictor {
 public:
  PeerPredictor(const SampledJob& job, const PeerTimes& times) : job_(job), times_(times) {}

  [[nodiscard]] double forward_s(const std::string& function) { return operator_s(function, Pass::forward, 0); }
  [[nodiscard]] double backward_s(const std::string& function) { return operator_s(function, Pass::backward, 0); }
  [[nodiscard]] double optimizer_s(const std::string& function, std::int64_t layers) {
    return operator_s(function, Pass::forward, layers);
  }

  /// Of `elements` among `nodes` x `per_node` GPUs.
  [[nodiscard]] double collective_s(std::string_view function, std::int64_t elements, int nodes, int per_node) {
    return once(fmt::format("{} of {} elements, {} x {} GPUs", function, elements, nodes, per_node),
                [&] { return times_.collective_s(function, elements, nodes, per_node); });
  }

  [[nodiscard]] std::vector<PeerPrediction> take_predictions() { return std::move(predictions_); }

 private:
  template <typename Time>
  [[nodiscard]] double once(const std::string& name, const Time& time) {
    if (const auto at = known_.find(name); at != known_.end()) return at->second;
    const double time_s = time();
    predictions_.push_back({name, time_s});
    return known_[name] = time_s;
  }
  [[nodiscard]] double operator_s(const std::string& function, Pass pass, std::int64_t layers);

  const SampledJob& job_;
  const PeerTimes& times_;
  std::map<std::string, double> known_;
  std::vector<PeerPrediction> predictions_;
};

double PeerPredictor::operator_s(const std::string& function, Pass pass, std::int64_t layers) {
  const SampledFunction* const sampled = find_sampled_function(function);
  if (sampled == nullptr || sampled->one_pass != (layers > 0)) {
    throw InputError(fmt::format("{} is not a sampled operator; those of a layer are linear1, flash_atten and the like",
                                 quote(function)));
  }
  const SampledShape shape{job_.mp, job_.micro_batch, job_.heads, job_.sequence_length, job_.hidden, layers};
  if (!operator_of(*sampled, shape, pass, kPeerType)) {
    throw InputError(
        fmt::format("{}: mp {} and {} heads do not divide hidden size {}", function, job_.mp, job_.heads, job_.hidden));
  }
  return once(layers > 0 ? fmt::format("{} of {} layers", function, layers)
                         : fmt::format("{} {}", function, pass == Pass::forward ? "forward" : "backward"),
              [&] { return times_.operator_s(*sampled, shape, pass); });
}

/// The composition.
class PeerComposition {
 public:
  PeerComposition(const SampledJob& job, const PeerTimes& times) : job_(job), predictor_(job, times) {}

  [[nodiscard]] PeerEstimate estimate() {
    split_layers();
    compose_stages();
    compose_update();
    const auto widest = [](PeerStages stages, double message_s, std::size_t without) {
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
    const std::int64_t table = sampled_vocabulary(job_.mp) * dim;
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
  PeerPredictor predictor_;
  PeerEstimate result_;
};

}  // namespace

PeerEstimate peer_estimate(const SampledJob& job, const PeerTimes& times) {
  return PeerComposition(job, times).estimate();
}

PeerEstimate peer_estimate(const SampledJob& job, const PeerSamples& samples) {
  return peer_estimate(job, RegressedTimes(job.gpu_name, samples));
}

}  // namespace lowgear::estimator
