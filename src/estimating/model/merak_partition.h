#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// The rules by which Merak (the trainer of Perseus) divides a model: of the pieces into which its tracer cuts it,
/// stage s has [boundaries[s], boundaries[s + 1]). A stage may be left without a piece, as with Merak's own code
/// (Merak/modules/utils.py, d2d5b41).
namespace lowgear::model {

/// How Merak rounds the number of pieces of a stage; the last one has what is left.
enum class MerakRounding : unsigned char {
  up,    ///< `uniform`, and `uniform_transformer` over the layers alone
  down,  ///< `uniform_floor`
};

/// Equally many pieces a stage. `pieces` from 0, `stages` at least 1.
[[nodiscard]] std::vector<std::int64_t> merak_even_boundaries(std::int64_t pieces, int stages, MerakRounding rounding);

/// `parameters`: a search for the least bottleneck that stages filled from the front stay below, to 1e-3 parameters.
/// `parameters` of each piece are not negative and not all 0; `stages` is at least 1.
[[nodiscard]] std::vector<std::int64_t> merak_balanced_boundaries(std::span<const std::int64_t> parameters, int stages);

}  // namespace lowgear::model
