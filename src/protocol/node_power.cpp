#include "protocol/node_power.h"

#include <fmt/format.h>

#include <set>

#include "base/core/energy/energy_check.h"
#include "base/core/formats/json.h"
#include "base/core/text.h"
#include "protocol/json_members.h"

namespace lowgear::protocol {
namespace {

constexpr double kMaxValidS = 3'600;

}  // namespace

NodePower read_node_power(const JsonView& body) {
  require_members(body, {"safe_w", "gpus"});
  NodePower node{.safe_w = number_in(body.at("safe_w"), 1, kHighestGpuPowerW), .gpus = {}};
  const JsonView gpus = body.at("gpus");
  if (gpus.size() > kMaxNodeGpus) gpus.fail(fmt::format("more than {} GPUs", kMaxNodeGpus));
  std::set<std::string> known;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const JsonView gpu = gpus.at(i);
    require_members(gpu, {"uuid", "limit_w", "least_w", "most_w"});
    const double most_w = number_in(gpu.at("most_w"), 1, kHighestGpuPowerW);
    node.gpus.push_back({.uuid = normal_gpu_uuid(name_text(gpu.at("uuid"))),
                         .limit_w = number_in(gpu.at("limit_w"), 0, kHighestGpuPowerW),
                         .least_w = number_in(gpu.at("least_w"), 0, most_w),
                         .most_w = most_w});
    if (!known.insert(node.gpus.back().uuid).second) gpu.at("uuid").fail("occurs twice");
  }
  return node;
}

Json to_json(const NodePower& node) {
  Json gpus = Json::array();
  for (const GpuPowerLimit& gpu : node.gpus) {
    gpus.push_back({{"uuid", gpu.uuid}, {"limit_w", gpu.limit_w}, {"least_w", gpu.least_w}, {"most_w", gpu.most_w}});
  }
  return {{"safe_w", node.safe_w}, {"gpus", std::move(gpus)}};
}

NodeShares read_node_shares(const JsonView& answer) {
  NodeShares read{.valid_s = number_in(answer.at("valid_s"), 0, kMaxValidS), .shares = {}};
  const JsonView shares = answer.at("shares");
  for (std::size_t i = 0; i < shares.size(); ++i) {
    read.shares.push_back({.uuid = normal_gpu_uuid(name_text(shares.at(i).at("uuid"))),
                           .watts = number_in(shares.at(i).at("watts"), 0, kHighestGpuPowerW)});
  }
  return read;
}

Json to_json(const NodeShares& answer) {
  Json shares = Json::array();
  for (const PowerShare& share : answer.shares) shares.push_back({{"uuid", share.uuid}, {"watts", share.watts}});
  return {{"valid_s", answer.valid_s}, {"shares", std::move(shares)}};
}

}  // namespace lowgear::protocol
