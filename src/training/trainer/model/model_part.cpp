#include "training/trainer/model/model_part.h"

namespace lowgear::trainer {

ModelPart::ModelPart(const model::ModelConfig& config, std::span<const model::LayerRange> partition,
                     const std::vector<int>& here, const ModelPartOptions& options, const Communicators& ranks)
    : config_(config), ranks_(&ranks), fp8_(options.fp8.value_or(Fp8Blocks{})) {
  require_divisible(config_, ranks.tensor->size());
  const int last = static_cast<int>(partition.size()) - 1;
  for (const int stage : here) {
    const StageRange range{partition[static_cast<std::size_t>(stage)], stage == 0, stage == last};
    const BlockContext context{.config = &config_,
                               .store = &store_,
                               .tensor_group = ranks.tensor.get(),
                               .fp8_blocks = options.fp8 ? &fp8_ : nullptr};
    stages_[stage] = std::make_unique<Stage>(context, range, StageOptions{.recompute = options.recompute});
  }
  store_.freeze(options.frozen_blocks);
  store_.allocate(options.type, options.device, options.buffer_multiple);
  bind();
}

void ModelPart::bind() {
  for (const auto& [index, stage] : stages_) stage->bind();
}

void ModelPart::use_fp8(bool on) { fp8_.on = on; }

void ModelPart::dismiss() {
  stages_.clear();
  store_.release_gradients();
}

std::map<int, Stage*> ModelPart::stages() {
  std::map<int, Stage*> stages;
  for (const auto& [index, stage] : stages_) stages[index] = stage.get();
  return stages;
}

Parameter* ModelPart::find_tied(bool copy) {
  const bool here = copy ? stages_.rbegin()->second->range().last : stages_.begin()->second->range().first;
  if (!here) return nullptr;
  auto& parameters = store_.parameters();
  if (!copy) return &parameters.front();
  for (Parameter& parameter : parameters) {
    if (parameter.tied_copy) return &parameter;
  }
  return nullptr;
}

void ModelPart::reduce_tied_gradients() {
  if (!config_.tied_embeddings || store_.frozen_blocks() > 0) return;
  Parameter* embedding = find_tied(false);
  Parameter* copy = find_tied(true);
  if (embedding != nullptr && copy != nullptr) {
    embedding->gradient.add_(copy->gradient);
    copy->gradient.copy_(embedding->gradient);
  } else if (embedding != nullptr || copy != nullptr) {
    ranks_->tied->all_reduce(embedding != nullptr ? embedding->gradient : copy->gradient);
  }
}

}  // namespace lowgear::trainer
