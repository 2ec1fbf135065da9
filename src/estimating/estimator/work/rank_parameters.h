#pragma once

#include <vector>

#include "estimating/estimator/job/training_job.h"

namespace lowgear::estimator {

/// Parameters of one tp rank before ZeRO divides them, by the number of ranks that share them.
struct RankParameters {
  double dense = 0;    ///< dp * cp ranks have the same
  double experts = 0;  ///< dp * cp / ep ranks have the same

  [[nodiscard]] double total() const { return dense + experts; }
};

/// Parameters of one layer, with experts if the model has them.
[[nodiscard]] RankParameters layer_parameters(const TrainingJob& job);

/// The token embedding, padded, on one tp rank: as large as the output matrix.
[[nodiscard]] double token_matrix_parameters(const TrainingJob& job);

/// By pipeline rank: its layers, the embedding on the first, the head on the last, which has a copy of tied embeddings
/// if there are several ranks.
[[nodiscard]] std::vector<RankParameters> rank_parameters(const TrainingJob& job);

}  // namespace lowgear::estimator
