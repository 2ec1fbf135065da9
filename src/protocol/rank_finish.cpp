#include "protocol/rank_finish.h"

#include <fmt/format.h>

#include "base/core/formats/json.h"

namespace lowgear::protocol {

RankFinish read_rank_finish(const JsonView& body, int ranks) {
  require_members(body, {"rank"});
  return {.rank = body.at("rank").integer_in(0, ranks - 1)};
}

std::string write_rank_finish(const RankFinish& finish) { return fmt::format(R"({{"rank": {}}})", finish.rank); }

}  // namespace lowgear::protocol
