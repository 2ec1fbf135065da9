#include "training/launcher/rank_layout.h"

namespace lowgear::launcher {

RankPlace RankLayout::place_of(int rank) const {
  return {rank / (parallel_.dp * parallel_.tp), rank / parallel_.tp % parallel_.dp, rank % parallel_.tp};
}

int RankLayout::rank_at(const RankPlace& place) const {
  return (place.pp * parallel_.dp + place.dp) * parallel_.tp + place.tp;
}

std::vector<int> RankLayout::along(int RankPlace::*axis, int size, int rank) const {
  std::vector<int> ranks;
  RankPlace place = place_of(rank);
  for (place.*axis = 0; place.*axis < size; ++(place.*axis)) ranks.push_back(rank_at(place));
  return ranks;
}

std::vector<int> RankLayout::pipeline_of(int rank) const { return along(&RankPlace::pp, parallel_.pp, rank); }
std::vector<int> RankLayout::replicas_of(int rank) const { return along(&RankPlace::dp, parallel_.dp, rank); }
std::vector<int> RankLayout::tensor_group_of(int rank) const { return along(&RankPlace::tp, parallel_.tp, rank); }

std::vector<int> RankLayout::tied_group_of(int rank) const {
  RankPlace place = place_of(rank);
  if (ends_.first == ends_.last || (place.pp != ends_.first && place.pp != ends_.last)) return {};
  std::vector<int> ranks;
  for (const int position : {ends_.first, ends_.last}) {
    place.pp = position;
    ranks.push_back(rank_at(place));
  }
  return ranks;
}

}  // namespace lowgear::launcher
