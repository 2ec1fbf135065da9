#pragma once

#include <string>

#include "estimating/estimator/job/transformer_members.h"
#include "estimating/estimator/job/transformer_shape.h"

namespace lowgear::estimator {

/// The shape that they describe (see parse_transformer_shape), with this name.
[[nodiscard]] TransformerShape read_transformer_shape(const ConfigMembers& members, std::string name);

}  // namespace lowgear::estimator
