#include "training/launcher/config/adapt_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "planning/adapt/freezing/weight_gradient_rotation.h"
#include "training/launcher/config/yaml_members.h"

namespace lowgear::launcher {
namespace {

namespace fs = std::filesystem;

/// The last block is trained: without any there is no use for all that is computed before the output layer.
std::int64_t read_frozen_blocks(const YamlView& map, std::int64_t layers) {
  return map.at("blocks").integer_in(0, layers - 1);
}

void read_freeze_controller(const YamlView& map, const fs::path& folder, std::int64_t layers, FreezeConfig& freeze) {
  map.require_only({"held_out", "window_steps", "cap", "dwell_windows", "steady_windows", "steady_drift",
                    "loss_margin_pct", "rewarm_steps", "log"});
  FreezeControllerConfig controller;
  controller.held_out = paths_at(map.at("held_out"), folder);
  read_optional(map, "window_steps", 1, kMaxSteps, controller.window_steps);
  read_optional(map, "rewarm_steps", 0, kMaxSteps, controller.rewarm_steps);
  read_optional(map, "log", folder, controller.log);
  adapt::freezing::Options& options = controller.options;
  read_optional(map, "cap", 0, 0.99, options.cap);
  read_optional(map, "dwell_windows", 1, 1'000'000, options.dwell_windows);
  read_optional(map, "steady_windows", 1, 1'000'000, options.steady_windows);
  read_optional(map, "steady_drift", 1e-6, 1e6, options.steady_drift);
  double margin_pct = 100 * options.loss_margin;
  read_optional(map, "loss_margin_pct", 0, 100, margin_pct);
  options.loss_margin = margin_pct / 100;
  controller.most_blocks = adapt::freezing::Controller(layers, options).most_blocks();
  freeze.controller = std::move(controller);
}

/// A list of `{step: , what: }` whose steps rise.
template <typename Read>
void read_steps(const YamlView& list, std::string_view what, Read read) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const YamlView entry = list.at(i);
    entry.require_only({"step", what});
    const std::int64_t step = entry.at("step").integer_in(first, kMaxSteps);
    read(step, entry);
    first = step + 1;
  }
}

void read_freeze(const YamlView& map, const fs::path& folder, std::int64_t layers, FreezeConfig& freeze) {
  constexpr std::array kWays = {"blocks", "schedule", "controller", "weight_gradients"};
  map.require_only({kWays[0], kWays[1], kWays[2], kWays[3]});
  if (std::ranges::count_if(kWays, [&](const char* key) { return map.has(key); }) != 1) {
    map.fail("give one of blocks, schedule, controller, weight_gradients",
             "blocks: 4, or schedule: [{step: 100, blocks: 4}]");
  }
  if (map.has("controller")) return read_freeze_controller(map.at("controller"), folder, layers, freeze);
  if (map.has("weight_gradients")) {
    const YamlView way = map.at("weight_gradients");
    way.require_only({"budget"});
    freeze.weight_gradient_budget = way.at("budget").number_in(0, adapt::freezing::WeightGradientRotation::kMostBudget);
    return;
  }
  if (map.has("blocks")) {
    freeze.prefixes = {{.step = 0, .blocks = read_frozen_blocks(map, layers)}};
    return;
  }
  read_steps(map.at("schedule"), "blocks", [&](std::int64_t step, const YamlView& entry) {
    freeze.prefixes.push_back({.step = step, .blocks = read_frozen_blocks(entry, layers)});
  });
}

OperatingPoints read_points(const YamlView& map, const fs::path& folder) {
  const std::vector<std::string> kinds = {"clocks_mhz", "plans", "power_limits_w"};
  if (std::ranges::count_if(kinds, [&map](const std::string& kind) { return map.has(kind); }) != 1) {
    map.fail("give one of clocks_mhz, plans, power_limits_w", "clocks_mhz: [1980, 1755, 1530]");
  }
  const std::string kind = *std::ranges::find_if(kinds, [&map](const std::string& each) { return map.has(each); });
  const YamlView list = map.at(kind);
  OperatingPoints points;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (kind == "plans") points.plans.push_back(path_at(list.at(i), folder));
    if (kind == "clocks_mhz") points.clocks_mhz.push_back(int_in(list.at(i), 1, 100'000));
    if (kind == "power_limits_w") points.power_limits_w.push_back(list.at(i).number_in(1, 100'000));
  }
  if (list.size() < 2 || list.size() > adapt::kMaxOperatingPoints) {
    list.fail(
        fmt::format("{} points; name 2 to {}, the one at full speed first", list.size(), adapt::kMaxOperatingPoints));
  }
  return points;
}

void read_slowdown(const YamlView& map, const fs::path& folder, AdaptConfig& adapt) {
  map.require_only({"allowed_pct", "clocks_mhz", "plans", "power_limits_w"});
  adapt.trial.allowed_slowdown_pct = map.at("allowed_pct").number_in(0, 1000);
  adapt.slowdown = read_points(map, folder);
}

void read_trial(const YamlView& map, adapt::SearchOptions& trial) {
  map.require_only({"block_s", "settle_iterations", "max_iterations"});
  read_optional(map, "block_s", 0.001, 86400, trial.block_s);
  read_optional(map, "settle_iterations", 0, 1000, trial.settle_iterations);
  read_optional(map, "max_iterations", 1, 1'000'000'000, trial.max_iterations);
}

void use_technique(const YamlView& name, const YamlView& map, const fs::path& folder, const FreezeConfig& freeze,
                   AdaptConfig& adapt) {
  const std::string text = name.text();
  if (freeze.controller && freeze.controller->log) {
    name.fail("adapt.log has the decisions about freezing, too", "leave out adapt.freeze.controller.log");
  }
  if (text == "freezing") {
    const auto& controller = freeze.controller;
    if (!controller)
      name.fail("neither a schedule nor a controller says when to freeze",
                "add adapt.freeze.controller: {held_out: FILE}");
    if (controller->window_steps < 2) {
      name.fail("no step would count, as each contains measuring the held-out loss",
                "set adapt.freeze.controller.window_steps: 100");
    }
    adapt.freezing = true;
  } else if (text == "slowdown") {
    if (!map.has("slowdown")) {
      name.fail("there are no operating points", "add adapt.slowdown: {allowed_pct: 2, clocks_mhz: [1980, 1755]}");
    }
    read_slowdown(map.at("slowdown"), folder, adapt);
  } else if (text == "precision") {
    name.fail("it is chosen before the first step, and all steps of a run have it",
              "set type: auto, which tries bf16 and fp8");
  } else {
    name.fail(fmt::format("unknown technique {}", quote(text)), "there are freezing, slowdown");
  }
}

RepartitionConfig::Profile read_repartition_profile(const YamlView& map, const fs::path& folder) {
  RepartitionConfig::Profile profile;
  profile.file = path_at(map.at("profile"), folder);
  const YamlView power = map.at("blocking_power");
  profile.blocking_power = power.text();
  if (!parse_number(profile.blocking_power)) profile.blocking_power = path_at(power, folder).string();
  read_optional(map, "slowdown_pct", 0, 1000, profile.slowdown_pct);
  return profile;
}

RepartitionConfig read_repartition(const YamlView& view, const fs::path& folder) {
  RepartitionConfig repartition;
  if (!view.is_map()) {
    if (view.text() != "auto") {
      view.fail(fmt::format("unknown kind of repartition {}", quote(view.text())),
                "auto, or {schedule: [{step: 100, partition: cost}]}");
    }
    repartition.automatic = true;
    return repartition;
  }
  view.require_only({"schedule", "profile", "blocking_power", "slowdown_pct"});
  if (view.has("schedule") == view.has("profile")) {
    view.fail("give either schedule or profile", "schedule: [{step: 100, partition: \"custom:0,5,8\"}]");
  }
  if (view.has("profile")) {
    repartition.automatic = true;
    repartition.profile = read_repartition_profile(view, folder);
    return repartition;
  }
  read_steps(view.at("schedule"), "partition", [&](std::int64_t step, const YamlView& entry) {
    repartition.schedule.push_back({.step = step, .partition = entry.at("partition").text()});
  });
  return repartition;
}

}  // namespace

std::int64_t FreezeConfig::blocks_at(std::int64_t step) const {
  std::int64_t blocks = 0;
  for (const Prefix& prefix : prefixes) {
    if (prefix.step <= step) blocks = prefix.blocks;
  }
  return blocks;
}

std::int64_t FreezeConfig::most_blocks() const {
  std::int64_t most = controller ? controller->most_blocks : 0;
  for (const Prefix& prefix : prefixes) most = std::max(most, prefix.blocks);
  return most;
}

bool FreezeConfig::changes() const {
  return controller || std::ranges::any_of(prefixes, [this](const Prefix& p) { return p.blocks != blocks_at(0); });
}

std::vector<std::string> OperatingPoints::names() const {
  std::vector<std::string> names;
  for (const int clock_mhz : clocks_mhz) names.push_back(fmt::format("{} MHz", clock_mhz));
  for (const fs::path& plan : plans) names.push_back(plan.filename().string());
  for (const double limit_w : power_limits_w) names.push_back(fmt::format("{:g} W", limit_w));
  return names;
}

void read_adapt(const YamlView& map, const fs::path& folder, std::int64_t layers, FreezeConfig& freeze,
                AdaptConfig& adapt) {
  map.require_only({"freeze", "techniques", "slowdown", "trial", "placebo", "log", "repartition"});
  if (map.has("freeze")) read_freeze(map.at("freeze"), folder, layers, freeze);
  if (map.has("repartition")) adapt.repartition = read_repartition(map.at("repartition"), folder);
  if (map.has("trial")) read_trial(map.at("trial"), adapt.trial);
  read_optional(map, "placebo", adapt.placebo);
  read_optional(map, "log", folder, adapt.log);
  if (!map.has("techniques")) return;
  const YamlView techniques = map.at("techniques");
  for (std::size_t i = 0; i < techniques.size(); ++i) use_technique(techniques.at(i), map, folder, freeze, adapt);
}

}  // namespace lowgear::launcher
