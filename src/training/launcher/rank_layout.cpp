#include "training/launcher/rank_layout.h"

namespace lowgear::launcher {

RankPlace RankLayout::place_of(int rank) const {
  return {rank / (parallel_.dp * parallel_.tp), rank / parallel_.tp % parallel_.dp, rank % parallel_.tp};
}

int RankLayout::rank_at(const RankPlace& place) const {
  return (place.pp * parallel_.dp + place.dp) * parallel_.tp + place.tp;
}

std::vector<int> RankLayout::pipeline_of(int rank) const {
  std::vector<int> ranks;
  RankPlace place = place_of(rank);
  for (place.pp = 0; place.pp < parallel_.pp; ++place.pp) ranks.push_back(rank_at(place));
  return ranks;
}

std::vector<int> RankLayout::replicas_of(int rank) const {
  std::vector<int> ranks;
  RankPlace place = place_of(rank);
  for (place.dp = 0; place.dp < parallel_.dp; ++place.dp) ranks.push_back(rank_at(place));
  return ranks;
}

std::vector<int> RankLayout::tensor_group_of(int rank) const {
  std::vector<int> ranks;
  RankPlace place = place_of(rank);
  for (place.tp = 0; place.tp < parallel_.tp; ++place.tp) ranks.push_back(rank_at(place));
  return ranks;
}

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
