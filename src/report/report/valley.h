#pragma once

#include <optional>
#include <vector>

#include "base/core/formats/json.h"
#include "base/core/op_kind.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::report {

/// Energy of an op over its clock, as profiled: what EnvPipe calls the energy valley curve, which it draws for whole
/// iterations.
struct Valley {
  int stage = 0;
  OpKind kind = OpKind::forward;
  std::vector<int> clocks_mhz;                ///< rising; two at least
  std::vector<double> energy_j;               ///< by clock, of one GPU; of several settings the least
  std::optional<int> envpipe_clock_mhz = {};  ///< that EnvPipe starts the stage from; empty: not computed
};

/// Of every stage and kind with at least two clocks.
[[nodiscard]] std::vector<Valley> valleys_of(const profile::StageProfile& profile);

/// For the pages.
[[nodiscard]] Json valleys_json(const std::vector<Valley>& valleys);

}  // namespace lowgear::report
