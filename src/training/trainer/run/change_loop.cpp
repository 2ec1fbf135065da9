#include "training/trainer/run/change_loop.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "estimating/model/partition.h"

namespace lowgear::trainer {
namespace {

constexpr int kLargestCount = 1'000'000'000;

adapt::ChangeOptions change_options(const launcher::TrainConfig& config) {
  adapt::ChangeOptions options;
  options.search = config.adapt.trial;
  if (config.adapt.slowdown) options.points = config.adapt.slowdown->names();
  if (config.freeze.controller) {
    options.freezing = adapt::FreezingChange{
        .blocks = config.model.layers, .options = config.freeze.controller->options, .tried = config.adapt.freezing};
  }
  return options;
}

/// Of a run that may have had other kinds of changes or other points.
adapt::ChangeState start_state(const JsonView& root, const adapt::ChangeOptions& options) {
  adapt::ChangeState state;
  std::optional<adapt::freezing::State> freezing;
  if (root.has("controller")) freezing = adapt::freezing::state_of(root.at("controller"));
  if (root.has("techniques")) {
    const JsonView saved = root.at("techniques");
    state = adapt::change_state_of(saved.at("state"));
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

/// Where the record is written. The launcher refuses to name both.
const std::optional<std::filesystem::path>& record_path(const launcher::TrainConfig& config) {
  const bool of_freezing = !config.adapt.is_on() && config.freeze.controller;
  return of_freezing ? config.freeze.controller->log : config.adapt.log;
}

}  // namespace

ChangeLoop::ChangeLoop(const launcher::TrainConfig& config, TrainedPart& part, client::Client& client,
                       const Communicators& ranks, HeldOut held_out)
    : config_(&config), part_(&part), ranks_(&ranks), held_out_(std::move(held_out)) {
  if (config.adapt.is_on() || freezes()) controller_.emplace(change_options(config));
  if (freezes()) window_.emplace(config, part.optimizer(), ranks);
  if (config.freeze.weight_gradient_budget) drops_.emplace(config);
  if (config.adapt.slowdown) points_.emplace(*config.adapt.slowdown, client, part.place().pp);
  if (config.adapt.repartition) partitions_.emplace(config, client, ranks, part.place().pp);
}

void ChangeLoop::begin(std::int64_t first_iteration) {
  if (partitions_) (void)part_->change(part_->store().frozen_blocks(), partitions_->partition());
  // The first loss allocates its buffers, and text that cannot be read shows now rather than after a window.
  if (freezes()) (void)held_out_();
  if (!controller_) return;
  adopt(controller_->current(), first_iteration);
  if (points_ && !config_->adapt.placebo) points_->begin(part_->schedule());
  if (!record_path(*config_) || ranks_->world->rank() != 0) return;
  record_.emplace(*record_path(*config_), first_iteration);
  write(adapt::write_change_header(change_options(*config_), controller_->state(), first_iteration));
}

void ChangeLoop::write(const std::string& line) {
  if (!record_ || record_->add(line) || record_->lost_lines() != 1) return;
  fmt::print(stderr, "{}; training continues\n", record_->lost_text());
}

ChangeLoop::Applied ChangeLoop::apply(std::int64_t iteration) {
  if (controller_ && (config_->adapt.is_on() || std::exchange(window_ended_, false))) agree(iteration);
  const std::int64_t blocks = blocks_at(iteration);
  const std::string partition = partitions_ ? partitions_->partition_at(iteration, blocks, part_->partition())
                                            : model::partition_text(part_->partition());
  Applied applied{.moved = part_->change(blocks, partition)};
  part_->drop(drops_ ? drops_->for_model(iteration) : WeightGradientDrops{});
  applied.agent_accepts = apply_operating_point();
  if (partitions_) applied.agent_accepts = partitions_->follow() && applied.agent_accepts;
  return applied;
}

/// Rank 0 decides by what all ranks measured in the iteration before.
void ChangeLoop::agree(std::int64_t iteration) {
  const at::Tensor agreed = at::zeros({2}, at::kDouble);
  if (ranks_->world->rank() == 0) {
    decide();
    const adapt::Configuration next = controller_->current();
    agreed[0] = static_cast<double>(next.frozen_blocks);
    agreed[1] = next.point;
  }
  ranks_->world->broadcast(agreed, 0);
  adopt({.frozen_blocks = static_cast<std::int64_t>(agreed[0].item<double>()),
         .point = static_cast<int>(agreed[1].item<double>())},
        iteration);
}

void ChangeLoop::adopt(const adapt::Configuration& next, std::int64_t iteration) {
  if (config_->adapt.placebo) return;
  if (next.frozen_blocks < agreed_.frozen_blocks) {
    unfrozen_ = {.from = next.frozen_blocks, .until = agreed_.frozen_blocks, .iteration = iteration};
  }
  agreed_ = next;
}

void ChangeLoop::decide() {
  if (config_->adapt.is_on() && seen_.iteration.steps_done > 0) {
    for (adapt::ChangeDecision& decision : controller_->observe(seen_.iteration)) {
      seen_.decisions.push_back(std::move(decision));
    }
    write(adapt::write_change_line(seen_));
  }
  decisions_.insert(decisions_.end(), seen_.decisions.begin(), seen_.decisions.end());
  seen_ = {};
}

/// Returns whether the agent accepts it.
bool ChangeLoop::apply_operating_point() {
  if (!points_ || config_->adapt.placebo) return true;
  try {
    points_->set(agreed_.point, part_->schedule());
    return true;
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}; training continues\n", point_name(), error.what());
    return false;
  }
}

void ChangeLoop::after_update(std::int64_t iteration, double learning_rate) {
  if (drops_) drops_->after_update(iteration);
  if (!window_) return;
  window_->after_update(iteration);
  if (!window_->ends_with(iteration)) return;
  adapt::freezing::Observation window = window_->take(iteration, learning_rate);
  window.held_out_loss = held_out_();
  window_ended_ = true;
  if (ranks_->world->rank() != 0) return;
  seen_.decisions = controller_->observe(window);
  seen_.window = std::move(window);
  if (config_->adapt.is_on()) return;  // the iteration is observed, too
  seen_.iteration = {.steps_done = iteration + 1,
                     .time_s = adapt::freezing::kNotMeasured,
                     .energy_j = adapt::freezing::kNotMeasured,
                     .counted = false};
  write(adapt::write_change_line(seen_));
}

void ChangeLoop::after_iteration(IterationResult& result) {
  if (partitions_) {
    result.partition = model::partition_text(part_->partition());
    partitions_->after_iteration(result);
  }
  if (config_->adapt.is_on()) {
    seen_.iteration = {.steps_done = result.iteration + 1,
                       .time_s = result.time_s,
                       .energy_j = result.energy_j.value_or(adapt::freezing::kNotMeasured),
                       .counted = !window_ || !window_->ends_with(result.iteration),
                       .switched = result.ranks_not_switched == 0};
  }
  result.operating_point = point_name();
  result.decisions = std::exchange(decisions_, {});
}

std::int64_t ChangeLoop::blocks_at(std::int64_t iteration) const {
  return freezes() ? agreed_.frozen_blocks : config_->freeze.blocks_at(iteration);
}

SlowerBlocks ChangeLoop::slower_at(std::int64_t iteration) const {
  if (!freezes() || unfrozen_.iteration < 0) return {};
  const std::int64_t iterations = config_->freeze.controller->rewarm_steps;
  if (iteration - unfrozen_.iteration >= iterations) return {};
  return {.from = unfrozen_.from,
          .until = unfrozen_.until,
          .factor = static_cast<double>(iteration - unfrozen_.iteration + 1) / static_cast<double>(iterations + 1)};
}

std::optional<GradientDrops::Drops> ChangeLoop::drops_at(std::int64_t iteration) const {
  return drops_ ? std::optional(drops_->at(iteration)) : std::nullopt;
}

/// Empty where no operating point is searched.
std::string ChangeLoop::point_name() const {
  if (!points_ || config_->adapt.placebo) return "";
  return config_->adapt.slowdown->names()[static_cast<std::size_t>(agreed_.point)];
}

std::string ChangeLoop::save() const {
  Json json = Json::object();
  const adapt::ChangeState state = controller_ ? controller_->state() : adapt::ChangeState{};
  if (freezes()) {
    json["blocks"] = agreed_.frozen_blocks;
    json["unfrozen"] = {{"from", unfrozen_.from}, {"until", unfrozen_.until}, {"step", unfrozen_.iteration}};
    json["controller"] = adapt::freezing::state_json(*state.freezing);
    window_->save(json);
  }
  if (config_->adapt.is_on()) {
    Json good = adapt::change_state_json(state);
    good.erase("freezing");
    json["techniques"] = {{"state", good}, {"points", change_options(*config_).points}};
  }
  if (drops_) json["weight_gradients"] = drops_->save();
  if (partitions_) json["repartition"] = partitions_->save();
  return json.empty() ? "" : json.dump();
}

/// Only rank 0 has the controller's memory; all ranks have what it decided.
void ChangeLoop::restore(const std::string& json, const std::string& source) {
  const Json document = parse_json(json, source);
  const JsonView root(document, source, "$.freezing");
  if (freezes() && root.has("blocks")) {  // else of a run that froze nothing
    agreed_.frozen_blocks = root.at("blocks").integer_in(0, kLargestCount);
    const JsonView unfrozen = root.at("unfrozen");
    unfrozen_ = {.from = unfrozen.at("from").integer_in(0, kLargestCount),
                 .until = unfrozen.at("until").integer_in(0, kLargestCount),
                 .iteration = unfrozen.at("step").integer_in(-1, kLargestCount)};
    window_->restore(root);
  }
  if (controller_) {
    const adapt::ChangeOptions options = change_options(*config_);
    controller_.emplace(options, start_state(root, options));
  }
  if (drops_ && root.has("weight_gradients")) drops_->restore(root.at("weight_gradients"));
  if (partitions_ && root.has("repartition")) partitions_->restore(root.at("repartition"));
}

}  // namespace lowgear::trainer
