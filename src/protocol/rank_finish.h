#pragma once

#include <string>

#include "base/core/formats/json.h"

namespace lowgear::protocol {

/// The body of POST .../finish (docs/server-api.md): this rank has ended.
struct RankFinish {
  int rank = 0;
  friend bool operator==(const RankFinish&, const RankFinish&) = default;
};

/// Throws InputError with the JSON path. `ranks` is how many ranks the job has.
[[nodiscard]] RankFinish read_rank_finish(const JsonView& body, int ranks);
[[nodiscard]] std::string write_rank_finish(const RankFinish& finish);

}  // namespace lowgear::protocol
