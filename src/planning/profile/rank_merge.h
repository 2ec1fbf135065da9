#pragma once

#include <string>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// A row of a profile's file whose values are good by themselves.
struct ProfileRow {
  int stage = 0;
  OpKind kind = OpKind::forward;
  Measurement measurement;
  int line = 0;
  long long rank = 0;  ///< that measured; 0 where the file has no column `rank`
};

struct MergedRanks {
  std::vector<ProfileRow> rows;
  std::vector<std::string> doubts;  ///< omitted rows, and ranks that contradict each other; one line each
};

/// One row for all ranks of a stage: it takes as long as the slowest of them, and its energy is their mean, that of one
/// GPU. A clock that not every rank has measured says nothing about the others (Merak's profiler ends each rank at a
/// clock of its own) and is left out. Ranks of a stage do the same work: those whose times or powers are far from the
/// others' are in doubt. Throws InputError where ranks have no clock in common.
[[nodiscard]] MergedRanks merge_ranks(const std::vector<ProfileRow>& rows, const std::string& source);

}  // namespace lowgear::profile
