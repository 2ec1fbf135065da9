#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/core/formats/yaml.h"
#include "planning/adapt/freezing/controller.h"
#include "planning/adapt/operating_point_search.h"

namespace lowgear::launcher {

/// A frozen prefix that grows and shrinks with the state of the training: `adapt.freeze.controller`.
struct FreezeControllerConfig {
  std::vector<std::filesystem::path> held_out;  ///< token files, with the `token_type` of the training's
  adapt::freezing::Options options;
  std::int64_t window_steps = 100;           ///< between decisions
  std::int64_t rewarm_steps = 100;           ///< in which the rate of unfrozen blocks rises to that of the others
  std::optional<std::filesystem::path> log;  ///< record of changes
  std::int64_t most_blocks = 0;              ///< largest prefix that the cap admits
};

/// Which part of the model is not trained (docs/training.md): the section `adapt.freeze`.
struct FreezeConfig {
  /// Number of first blocks that are not trained from a step on, with the embedding; 0: all is trained.
  struct Prefix {
    std::int64_t step = 0;
    std::int64_t blocks = 0;
  };
  std::vector<Prefix> prefixes;                      ///< by step, each until the next; none before the first
  std::optional<FreezeControllerConfig> controller;  ///< decides instead of them
  /// Instead: share of the blocks' weight gradients, by FLOPs, that iterations leave out in turns, after the warm-up.
  std::optional<double> weight_gradient_budget;

  /// By the prefixes.
  [[nodiscard]] std::int64_t blocks_at(std::int64_t step) const;
  /// Of all prefixes, also of those that the controller may choose.
  [[nodiscard]] std::int64_t most_blocks() const;
  /// Whether the number of blocks is another in some step than in the first.
  [[nodiscard]] bool changes() const;
};

/// The operating points of a job, of which the first is full speed: clocks, plans, or power limits.
struct OperatingPoints {
  std::vector<int> clocks_mhz;
  std::vector<std::filesystem::path> plans;
  std::vector<double> power_limits_w = {};

  /// For reasons: `1380 MHz`, `00007.json`, `600 W`.
  [[nodiscard]] std::vector<std::string> names() const;
};

/// How layers move between the stages of a job that trains: the section `adapt.repartition`.
struct RepartitionConfig {
  /// From one step on, until the next.
  struct Switch {
    std::int64_t step = 0;
    std::string partition;  ///< as TrainConfig::partition
  };
  /// A profile by which partition and clocks are planned together.
  struct Profile {
    std::filesystem::path file;  ///< a stage profile of the job's own partition with nothing frozen
    std::string blocking_power;  ///< watts of a GPU that waits, or the file that has them by stage
    double slowdown_pct = 0;     ///< how much longer than the fastest plan with nothing frozen a step may be planned
  };
  std::vector<Switch> schedule;    ///< by step; TrainConfig::partition before the first
  bool automatic = false;          ///< instead: whenever the number of frozen blocks changes
  std::optional<Profile> profile;  ///< with `automatic`; empty: costs are FLOPs, and no clocks are set
};

/// Changes of a job while it trains, and how they are tried (docs/adapting.md): the section `adapt` without `freeze`.
struct AdaptConfig {
  bool freezing = false;                    ///< technique: blocks that freeze.controller proposes are tried
  std::optional<OperatingPoints> slowdown;  ///< technique; empty: off
  adapt::SearchOptions trial;               ///< of both
  std::optional<RepartitionConfig> repartition;
  bool placebo = false;                      ///< decides and changes nothing
  std::optional<std::filesystem::path> log;  ///< record of changes

  [[nodiscard]] bool is_on() const { return freezing || slowdown; }
};

/// Reads the section `adapt` of a model of `layers` layers. Paths are relative to `folder`. Throws InputError with
/// file, line and column.
void read_adapt(const YamlView& map, const std::filesystem::path& folder, std::int64_t layers, FreezeConfig& freeze,
                AdaptConfig& adapt);

}  // namespace lowgear::launcher
