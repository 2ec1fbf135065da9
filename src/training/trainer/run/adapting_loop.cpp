#include "training/trainer/run/adapting_loop.h"

#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "planning/adapt/freezing/controller.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"

namespace lowgear::trainer {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

adapt::TechniqueOptions technique_options(const launcher::TrainConfig& config) {
  adapt::TechniqueOptions options;
  options.search = config.adapt.trial;
  if (config.adapt.slowdown) options.points = config.adapt.slowdown->names();
  if (config.adapt.freezing) {
    options.freezing = adapt::FreezingTechnique{config.model.layers, config.freeze.controller->options};
  }
  return options;
}

/// Of a run that may have had other techniques or points.
adapt::TechniqueState start_state(const JsonView& root, const adapt::TechniqueOptions& options) {
  adapt::TechniqueState state;
  std::optional<adapt::freezing::State> freezing;
  if (root.has("controller")) freezing = adapt::freezing::state_of(root.at("controller"));
  if (root.has("techniques")) {
    const JsonView saved = root.at("techniques");
    state = adapt::technique_state_of(saved.at("state"));
    if (saved.at("points").json() != Json(options.points)) {
      state.good.point = 0;
      state.search_due = true;
    }
  }
  state.freezing = options.freezing ? freezing : std::nullopt;
  const std::int64_t blocks = state.freezing ? state.freezing->blocks : 0;
  if (blocks != state.good.frozen_blocks) state.search_due = true;
  state.good.frozen_blocks = blocks;
  return state;
}

}  // namespace

AdaptingLoop::AdaptingLoop(const launcher::TrainConfig& config, FreezingLoop& freezing, client::Client& client,
                           const Communicators& ranks, int position)
    : config_(&config),
      freezing_(&freezing),
      client_(&client),
      ranks_(&ranks),
      position_(position),
      controller_(technique_options(config)) {
  if (config.adapt.freezing) {
    freezing.hand_over([this](const adapt::freezing::Observation& window) { observe_window(window); });
  }
  if (!config.adapt.slowdown) return;
  for (const std::filesystem::path& plan : config.adapt.slowdown->plans)
    plans_.push_back(read_file(plan, plan::kMaxPlanBytes));
}

void AdaptingLoop::begin(std::int64_t first_step, const schedule::Schedule& schedule) {
  agreed_ = controller_->current();
  if (config_->adapt.slowdown && !config_->adapt.placebo) {
    // What an agent refuses, it refuses before the first step.
    for (int point = static_cast<int>(config_->adapt.slowdown->names().size()) - 1; point >= 0; --point) {
      load(point, schedule);
    }
    loaded_ = Loaded{.point = 0, .frozen_stages = schedule.frozen_stages, .agents = lost_agents()};
  }
  if (!config_->adapt.log || ranks_->world->rank() != 0) return;
  log_.emplace(*config_->adapt.log, first_step);
  write(adapt::write_technique_header(technique_options(*config_), controller_->state(), first_step));
}

void AdaptingLoop::write(const std::string& line) {
  if (!log_ || log_->add(line) || log_->lost_lines() != 1) return;
  fmt::print(stderr, "{}; training continues\n", log_->lost_text());
}

void AdaptingLoop::load(int point, const schedule::Schedule& schedule) {
  const launcher::OperatingPoints& points = *config_->adapt.slowdown;
  const auto index = static_cast<std::size_t>(point);
  if (!points.power_limits_w.empty()) {
    set_power_limit(points.power_limits_w[index]);
  } else if (plans_.empty()) {
    const plan::Plan plan = plan::uniform_plan(schedule, points.clocks_mhz[index], "operating point");
    client_->load_plan_text(plan::write_plan(plan), "adapt.slowdown.clocks_mhz", position_, /*nearest_below=*/false);
  } else {
    client_->load_plan_text(plans_[index], points.plans[index].string(), position_, /*nearest_below=*/false);
  }
}

/// Under the lease that this process has at the agent already, with which it ends.
void AdaptingLoop::set_power_limit(double limit_w) {
  if (!settings_) {
    settings_.emplace(client::agent_http_socket(client_->agent_socket(), process_environment()));
  }
  (void)settings_->set_power_limit(client_->status().gpu_uuid, limit_w);
}

std::uint64_t AdaptingLoop::lost_agents() const {
  return config_->adapt.slowdown->power_limits_w.empty() ? 0 : client_->status().reconnects;
}

void AdaptingLoop::observe_window(const adapt::freezing::Observation& window) {
  step_.window = window;
  step_.decisions = controller_->observe(window);
}

void AdaptingLoop::after_step(const StepResult& result) {
  step_.iteration = {.steps_done = result.step + 1,
                     .time_s = result.time_s,
                     .energy_j = result.energy_j.value_or(kNone),
                     .counted = !freezing_->measures_after(result.step),
                     .switched = result.ranks_not_switched == 0};
}

void AdaptingLoop::decide() {
  for (adapt::TechniqueDecision& decision : controller_->observe(step_.iteration)) {
    step_.decisions.push_back(std::move(decision));
  }
  write(adapt::write_technique_line(step_));
  decisions_.insert(decisions_.end(), step_.decisions.begin(), step_.decisions.end());
  step_ = {};
}

void AdaptingLoop::agree(std::int64_t step) {
  const at::Tensor agreed = at::zeros({2}, at::kDouble);
  if (ranks_->world->rank() == 0) {
    if (step_.iteration.steps_done > 0) decide();
    const adapt::Configuration now = controller_->current();
    agreed[0] = static_cast<double>(now.frozen_blocks);
    agreed[1] = now.point;
  }
  ranks_->world->all_reduce(agreed);
  if (config_->adapt.placebo) {
    agreed_ = {};
    return;
  }
  agreed_ = {.frozen_blocks = static_cast<std::int64_t>(agreed[0].item<double>()),
             .point = static_cast<int>(agreed[1].item<double>())};
  if (config_->adapt.freezing) freezing_->adopt(agreed_.frozen_blocks, step);
}

bool AdaptingLoop::follow(const schedule::Schedule& schedule) {
  if (!config_->adapt.slowdown || config_->adapt.placebo) return true;
  // Other frozen stages are other units.
  const Loaded wanted{.point = agreed_.point,
                      .frozen_stages = config_->adapt.slowdown->clocks_mhz.empty() ? 0 : schedule.frozen_stages,
                      .agents = lost_agents()};
  if (loaded_ == wanted) return true;
  loaded_ = wanted;
  try {
    load(agreed_.point, schedule);
    return true;
  } catch (const Error& error) {
    fmt::print(stderr, "rank {}: {}: {}; training continues\n", ranks_->world->rank(), point_name(), error.what());
    return false;
  }
}

std::vector<adapt::TechniqueDecision> AdaptingLoop::take_decisions() { return std::exchange(decisions_, {}); }

std::string AdaptingLoop::point_name() const {
  if (!config_->adapt.slowdown || config_->adapt.placebo) return "";
  return config_->adapt.slowdown->names()[static_cast<std::size_t>(agreed_.point)];
}

std::string AdaptingLoop::save() const {
  const std::string freezing = freezing_->save();
  Json json = freezing.empty() ? Json::object() : Json::parse(freezing);
  const adapt::TechniqueState state = controller_->state();
  if (state.freezing) {
    json["blocks"] = state.good.frozen_blocks;
    json["controller"] = adapt::freezing::state_json(*state.freezing);
  }
  Json techniques = adapt::technique_state_json(state);
  techniques.erase("freezing");
  json["techniques"] = {{"state", techniques}, {"points", technique_options(*config_).points}};
  return json.dump();
}

/// Of all ranks, only the first has the controller's memory; what it decides, all learn.
void AdaptingLoop::restore(const std::string& json, const std::string& source) {
  freezing_->restore(json, source);
  const Json document = parse_json(json, source);
  const JsonView root(document, source, "$.freezing");
  const adapt::TechniqueOptions options = technique_options(*config_);
  controller_.emplace(options, start_state(root, options));
}

}  // namespace lowgear::trainer
