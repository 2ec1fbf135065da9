#include "client/rank/known_place.h"

#include <fmt/format.h>

#include <utility>

namespace lowgear::client {

void KnownPlace::set(AxisRank pipeline, std::optional<int> stage) {
  const std::lock_guard lock(mutex_);
  pipeline_ = std::move(pipeline);
  stage_ = stage;
}

KnownPlace::Place KnownPlace::get() const {
  const std::lock_guard lock(mutex_);
  Place place{.pp_rank = pipeline_.rank, .stage = stage_, .text = pipeline_.reason};
  if (pipeline_.rank && !stage_) {
    place.text = fmt::format(
        "pipeline rank {} ({}) has more than one stage, or one that is not known: name the stage "
        "with every unit",
        *pipeline_.rank, pipeline_.reason);
  }
  return place;
}

}  // namespace lowgear::client
