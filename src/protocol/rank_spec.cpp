#include "protocol/rank_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/core/energy/energy_check.h"
#include "base/core/formats/json.h"
#include "base/core/text.h"
#include "protocol/json_members.h"

namespace lowgear::protocol {
namespace {

constexpr std::size_t kMaxClocks = 2'000;

std::vector<int> read_clocks(const JsonView& value) {
  if (value.size() > kMaxClocks) value.fail(fmt::format("more than {} clocks", kMaxClocks));
  std::vector<int> clocks;
  for (std::size_t i = 0; i < value.size(); ++i) clocks.push_back(value.at(i).integer_in(1, kMaxRankClockMhz));
  std::ranges::sort(clocks, std::greater<>());
  clocks.erase(std::unique(clocks.begin(), clocks.end()), clocks.end());
  return clocks;
}

}  // namespace

RankSpec read_rank_spec(const JsonView& body, const JobParallel& parallel) {
  require_members(body, {"rank", "pp_rank", "dp_rank", "tp_rank", "instance", "host", "gpu_uuid", "gpu", "simulated",
                         "clocks_mhz", "power_limit_w", "follows_plans"});
  RankSpec rank;
  rank.rank = body.at("rank").integer_in(0, parallel.world_size() - 1);
  rank.pp_rank = body.at("pp_rank").integer_in(0, parallel.pp - 1);
  rank.dp_rank = body.at("dp_rank").integer_in(0, parallel.dp - 1);
  rank.tp_rank = body.at("tp_rank").integer_in(0, parallel.tp - 1);
  rank.instance = name_text(body.at("instance"));
  rank.host = name_text(body.at("host"));
  if (has_value(body, "gpu_uuid")) rank.gpu_uuid = normal_gpu_uuid(name_text(body.at("gpu_uuid")));
  if (has_value(body, "gpu")) rank.gpu = name_text(body.at("gpu"));
  if (body.has("simulated")) rank.simulated = body.at("simulated").boolean();
  if (body.has("clocks_mhz")) rank.clocks_mhz = read_clocks(body.at("clocks_mhz"));
  if (has_value(body, "power_limit_w")) rank.power_limit_w = number_in(body.at("power_limit_w"), 1, kHighestGpuPowerW);
  if (body.has("follows_plans")) rank.follows_plans = body.at("follows_plans").boolean();
  if (rank.follows_plans && rank.clocks_mhz.empty()) body.fail("follows_plans is true, and clocks_mhz names no clock");
  return rank;
}

Json to_json(const RankSpec& rank) {
  return {{"rank", rank.rank},
          {"pp_rank", rank.pp_rank},
          {"dp_rank", rank.dp_rank},
          {"tp_rank", rank.tp_rank},
          {"instance", rank.instance},
          {"host", rank.host},
          {"gpu_uuid", rank.gpu_uuid.empty() ? Json(nullptr) : Json(rank.gpu_uuid)},
          {"gpu", rank.gpu.empty() ? Json(nullptr) : Json(rank.gpu)},
          {"simulated", rank.simulated},
          {"clocks_mhz", rank.clocks_mhz},
          {"power_limit_w", or_null(rank.power_limit_w)},
          {"follows_plans", rank.follows_plans}};
}

std::string write_rank_spec(const RankSpec& rank) { return json_text(to_json(rank)); }

}  // namespace lowgear::protocol
