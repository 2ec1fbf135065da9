#include "estimating/estimator/work/rank_parameters.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lowgear::estimator {
namespace {

double embedding_parameters(const TrainingJob& job) {
  const std::int64_t tokens = job.model.vocabulary * embedding_width(job.model);
  const std::int64_t others = end_parameters(job.model).embedding - tokens;  // positions, norm
  return token_matrix_parameters(job) + static_cast<double>(others);
}

/// With tied embeddings, the last of several stages has a copy.
double head_parameters(const TrainingJob& job) {
  const bool shares = job.model.tied_embeddings && job.parallel.pp == 1;
  return static_cast<double>(end_parameters(job.model).final_norm) + (shares ? 0 : token_matrix_parameters(job));
}

}  // namespace

RankParameters layer_parameters(const TrainingJob& job) {
  const model::LayerParameters counts = layer_parameters(job.model, job.model.experts.has_value());
  const auto hidden = static_cast<double>(job.model.hidden);
  const double tp = job.parallel.tp;
  // Whole on every tp rank: norms, the router, biases of products whose outputs are summed (of which experts have none
  // here that would matter).
  const double router = job.model.experts ? hidden * static_cast<double>(job.model.experts->experts) : 0;
  const double output_biases = hidden * ((job.model.output_bias ? 1 : 0) + (job.model.mlp_biases ? 1 : 0));
  const double whole = static_cast<double>(counts.norms) + router + output_biases;
  const std::int64_t crossing = cross_attention_parameters(job.model);
  const double split = static_cast<double>(counts.attention + counts.mlp + crossing) - router - output_biases;
  return {.dense = whole + split / tp, .experts = static_cast<double>(counts.experts) / (tp * job.parallel.ep)};
}

double token_matrix_parameters(const TrainingJob& job) {
  return static_cast<double>(padded_vocabulary(job) * embedding_width(job.model)) / job.parallel.tp;
}

/// Virtual stage s runs on rank s % pp.
std::vector<RankParameters> rank_parameters(const TrainingJob& job) {
  const RankParameters layer = layer_parameters(job);
  const std::optional<TrainingJob> dense = second_kind(job);
  const RankParameters dense_layer = dense ? layer_parameters(*dense) : RankParameters{};
  const std::vector<std::int64_t> layers = layers_of_stages(job);
  const std::vector<std::int64_t> dense_layers = second_kind_of_stages(job);
  const auto pp = static_cast<std::size_t>(job.parallel.pp);
  std::vector<RankParameters> ranks(pp);
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const auto others = static_cast<double>(layers[stage] - dense_layers[stage]);
    ranks[stage % pp].dense += others * layer.dense + static_cast<double>(dense_layers[stage]) * dense_layer.dense;
    ranks[stage % pp].experts += others * layer.experts;
  }
  ranks.front().dense += embedding_parameters(job);
  ranks.back().dense += head_parameters(job);
  return ranks;
}

}  // namespace lowgear::estimator
