#pragma once

#include <string>
#include <vector>

#include "base/core/formats/json.h"

/// The documents by which a node's agent asks the server for its share of power budgets (docs/server-api.md).
namespace lowgear::protocol {

inline constexpr std::size_t kMaxNodeGpus = 128;

/// The power limit of a GPU.
struct GpuPowerLimit {
  std::string uuid;
  double limit_w = 0;  ///< in force or set last: the larger one
  double least_w = 0;  ///< the range that the GPU accepts
  double most_w = 0;
  friend bool operator==(const GpuPowerLimit&, const GpuPowerLimit&) = default;
};

/// The body of POST /v1/nodes/{host}/power.
struct NodePower {
  double safe_w = 0;  ///< the power limit of each GPU once its share has expired
  std::vector<GpuPowerLimit> gpus;
  friend bool operator==(const NodePower&, const NodePower&) = default;
};
/// Throws InputError with the JSON path.
[[nodiscard]] NodePower read_node_power(const JsonView& body);
[[nodiscard]] Json to_json(const NodePower& node);

/// The power that a GPU may draw.
struct PowerShare {
  std::string uuid;
  double watts = 0;
  friend bool operator==(const PowerShare&, const PowerShare&) = default;
};

/// The response to it.
struct NodeShares {
  double valid_s = 0;  ///< since the request was sent
  std::vector<PowerShare> shares;
  friend bool operator==(const NodeShares&, const NodeShares&) = default;
};
/// Throws InputError with the JSON path.
[[nodiscard]] NodeShares read_node_shares(const JsonView& answer);
[[nodiscard]] Json to_json(const NodeShares& answer);

}  // namespace lowgear::protocol
