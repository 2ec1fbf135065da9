#include "training/trainer/run/gradient_drops.h"

#include <fmt/format.h>

#include "base/core/error.h"

namespace lowgear::trainer {

namespace {

constexpr int kMaxSkipped = 1'000'000'000;

}  // namespace

GradientDrops::GradientDrops(const launcher::TrainConfig& config)
    : config_(&config),
      rotation_(config.model.layers, linear_weights(config.model), *config.freeze.weight_gradient_budget),
      skipped_(static_cast<std::size_t>(rotation_.operations())) {}

GradientDrops::Drops GradientDrops::at(std::int64_t iteration) const {
  return iteration < config_->optimizer.warmup_steps ? Drops{} : rotation_.drops();
}

WeightGradientDrops GradientDrops::for_model(std::int64_t iteration) const {
  if (config_->adapt.placebo) return {};
  WeightGradientDrops drops{.dropped = std::vector<bool>(skipped_.size()), .skipped = skipped_};
  for (const std::int64_t operation : at(iteration).operations) {
    drops.dropped[static_cast<std::size_t>(operation)] = true;
  }
  return drops;
}

void GradientDrops::after_update(std::int64_t iteration) {
  if (iteration < config_->optimizer.warmup_steps) return;
  if (!config_->adapt.placebo) {
    for (const std::int64_t operation : rotation_.drops().operations) ++skipped_[static_cast<std::size_t>(operation)];
  }
  rotation_.advance();
}

Json GradientDrops::save() const {
  return {{"next", rotation_.state().next}, {"credit", rotation_.state().credit}, {"skipped", skipped_}};
}

void GradientDrops::restore(const JsonView& saved) {
  const JsonView skipped = saved.at("skipped");
  if (skipped.size() != skipped_.size()) skipped.fail(fmt::format("the model has {} linear layers", skipped_.size()));
  for (std::size_t i = 0; i < skipped_.size(); ++i) skipped_[i] = skipped.at(i).integer_in(0, kMaxSkipped);
  const int most = static_cast<int>(rotation_.operations()) - 1;
  try {
    rotation_.restore({.next = saved.at("next").integer_in(0, most), .credit = saved.at("credit").integer()});
  } catch (const InputError& error) {
    saved.fail(error.what());
  }
}

}  // namespace lowgear::trainer
