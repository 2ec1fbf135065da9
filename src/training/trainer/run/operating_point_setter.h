#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/agent/agent_connection.h"
#include "client/client.h"
#include "planning/schedule/schedule.h"
#include "training/launcher/config/adapt_config.h"

namespace lowgear::trainer {

/// Has the agent of this rank set the operating points of a job: one clock for all units, a plan, or a power limit.
class OperatingPointSetter {
 public:
  /// `position` is the rank's place in the pipeline. All outlive this. Throws InputError when a plan cannot be read.
  OperatingPointSetter(const launcher::OperatingPoints& points, client::Client& client, int position);

  /// Sets every point once and ends with the first, at full speed: an agent that refuses one does so before training.
  /// Throws Error then.
  void begin(const schedule::Schedule& schedule);
  /// Sets a point for the units of this schedule. Does nothing where the agent follows it already. Throws Error when
  /// the agent refuses, and does not ask again for the same point.
  void set(int point, const schedule::Schedule& schedule);

 private:
  /// The setting that the agent follows.
  struct Loaded {
    int point = 0;
    int frozen_stages = 0;     ///< other frozen stages are other units; only of clocks
    std::uint64_t agents = 0;  ///< that were lost; only of power limits, which no plan hands over again
    friend bool operator==(const Loaded&, const Loaded&) = default;
  };

  [[nodiscard]] Loaded wanted(int point, const schedule::Schedule& schedule) const;
  void load(int point, const schedule::Schedule& schedule);
  void set_power_limit(double limit_w);

  const launcher::OperatingPoints* points_;
  client::Client* client_;
  int position_;
  std::vector<std::string> plans_;  ///< texts, by point; none: clocks or power limits
  std::optional<Loaded> loaded_;
  std::optional<client::AgentSettings> settings_;  ///< only of power limits
};

}  // namespace lowgear::trainer
