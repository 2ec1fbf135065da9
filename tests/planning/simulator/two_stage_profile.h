#pragma once

#include "planning/profile/stage_profile.h"

namespace lowgear::simulator {

/// Two stages; forward 1 s and 100 J, backward 2 s and 300 J at 1400 MHz; half as fast at 700 MHz, for 0.6 of the
/// energy. Stage 1 draws 10 J more for each op.
inline profile::StageProfile two_stage_profile() {
  profile::StageProfile profile(2);
  for (int stage = 0; stage < 2; ++stage) {
    const double extra_j = 10.0 * stage;
    profile.add(stage, OpKind::forward, {1400, 1, 100 + extra_j});
    profile.add(stage, OpKind::forward, {700, 2, 60 + extra_j});
    profile.add(stage, OpKind::backward, {1400, 2, 300 + extra_j});
    profile.add(stage, OpKind::backward, {700, 4, 180 + extra_j});
  }
  return profile;
}

}  // namespace lowgear::simulator
