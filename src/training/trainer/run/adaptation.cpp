#include "training/trainer/run/adaptation.h"

#include <string>
#include <utility>

#include "estimating/model/partition.h"
#include "training/launcher/training_text.h"

namespace lowgear::trainer {

Adaptation::Adaptation(const launcher::TrainConfig& config, TrainedPart& part, client::Client& client,
                       Communicators& ranks)
    : config_(&config),
      part_(&part),
      freezing_(config, part.optimizer(), ranks, [this] { return held_out_->measure(part_->stages()); }) {
  if (config.freeze.controller) {
    held_out_.emplace(config, launcher::held_out_quarter_config(config, config.freeze.controller->held_out),
                      part.place(), ranks, part.store().values().options());
  }
  if (config.adapt.is_on()) adapting_.emplace(config, freezing_, client, ranks, part.place().pp);
  if (config.envpipe && !config.server) {
    envpipe_.emplace(
        config, EnvPipeLoop::Parts{
                    .others = &state(),
                    .client = &client,
                    .ranks = &ranks,
                    .place = part.place(),
                    .schedule = [this]() -> const schedule::Schedule& { return part_->schedule(); },
                    .reorder = [this](std::vector<int> early_forwards) { part_->reorder(std::move(early_forwards)); }});
  }
  if (config.adapt.repartition) repartition_.emplace(config, state(), client, ranks, part.place().pp);
}

SavedState& Adaptation::state() {
  if (envpipe_) return *envpipe_;
  if (repartition_) return *repartition_;
  if (adapting_) return *adapting_;
  return freezing_;
}

void Adaptation::begin(std::int64_t first_step) {
  if (repartition_) (void)part_->change(part_->store().frozen_blocks(), repartition_->partition());
  freezing_.begin(first_step);
  if (adapting_) adapting_->begin(first_step, part_->schedule());
  if (envpipe_) envpipe_->begin(first_step);
}

Adaptation::Change Adaptation::prepare(std::int64_t step) {
  if (adapting_) adapting_->agree(step);
  const std::int64_t blocks = freezing_.blocks_at(step);
  const std::string partition = repartition_ ? repartition_->partition_at(step, blocks, part_->partition())
                                             : model::partition_text(part_->partition());
  Change change{.moved = part_->change(blocks, partition)};
  part_->drop(freezing_.dropped_at(step));
  if (adapting_) change.agent_accepts = adapting_->follow(part_->schedule());
  if (envpipe_) change.agent_accepts = envpipe_->follow();
  if (repartition_) change.agent_accepts = repartition_->follow() && change.agent_accepts;
  return change;
}

void Adaptation::after_step(StepResult& result) {
  if (repartition_) {
    result.partition = model::partition_text(part_->partition());
    repartition_->after_step(result);
  }
  if (envpipe_) result.envpipe = envpipe_->decision();
  if (!adapting_) return;
  adapting_->after_step(result);
  result.operating_point = adapting_->point_name();
  result.decisions = adapting_->take_decisions();
}

}  // namespace lowgear::trainer
