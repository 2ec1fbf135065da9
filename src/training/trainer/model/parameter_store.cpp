#include "training/trainer/model/parameter_store.h"

#include <algorithm>
#include <utility>

namespace lowgear::trainer {

std::vector<std::int64_t> linear_weights(const model::ModelConfig& config) {
  const std::int64_t mlp_inputs = config.mlp == model::MlpKind::gated ? 2 : 1;
  const std::int64_t width = config.experts ? config.experts->experts_per_token * config.experts->intermediate +
                                                  config.experts->shared_intermediate
                                            : config.intermediate;
  return {config.hidden * (config.heads + 2 * config.kv_heads) * config.head_dim,
          config.heads * config.head_dim * config.hidden, mlp_inputs * config.hidden * width, width * config.hidden};
}

namespace {

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// 128 bytes of the narrowest type.
constexpr std::int64_t kAlignedElements = 64;

}  // namespace

// NOLINTNEXTLINE(readability-make-member-function-const): it changes the gradient
void Parameter::accumulate(const at::Tensor& addend) {
  gradient.add_(addend);
  store->gradient_added(gradient);
}

Parameter& ParameterStore::declare(Parameter parameter) {
  parameter.store = this;
  return parameters_.emplace_back(std::move(parameter));
}

bool in_frozen_prefix(const Parameter& parameter, std::int64_t blocks) {
  return blocks > 0 && (parameter.tied || parameter.block < blocks);
}

void ParameterStore::allocate(at::ScalarType type, at::Device device, std::int64_t multiple) {
  emulates_fp16_ = type == at::kHalf && device.is_cpu();
  options_ = at::TensorOptions().device(device).dtype(emulates_fp16_ ? at::kFloat : type);
  multiple_ = multiple;
  lay_out();
}

void ParameterStore::freeze(std::int64_t blocks) {
  frozen_blocks_ = blocks;
  for (Parameter& parameter : parameters_) parameter.frozen = in_frozen_prefix(parameter, blocks);
  if (values_.defined()) lay_out();
}

void ParameterStore::round_values(const at::Tensor& part) const {
  const torch::autograd::AutoGradMode no_gradient(false);
  if (emulates_fp16_) part.copy_(part.to(at::kHalf));
}

void ParameterStore::drop(const WeightGradientDrops& drops) {
  for (Parameter& parameter : parameters_) {
    const bool may = parameter.linear != BlockLinear::none && !drops.dropped.empty();
    const auto operation =
        static_cast<std::size_t>(parameter.block * kBlockLinears + static_cast<std::int64_t>(parameter.linear));
    parameter.dropped = may && drops.dropped.at(operation);
    parameter.skipped_steps = may ? drops.skipped.at(operation) : 0;
  }
}

BufferLayout ParameterStore::layout() const {
  BufferLayout layout{.offsets = {}, .trained = trained(), .all = values_.numel()};
  for (const Parameter& parameter : parameters_) layout.offsets.push_back(parameter.offset);
  return layout;
}

std::vector<const Parameter*> ParameterStore::trained_by_offset() const {
  std::vector<const Parameter*> parameters;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.frozen) parameters.push_back(&parameter);
  }
  std::ranges::sort(parameters, {}, &Parameter::offset);
  return parameters;
}

void ParameterStore::release_gradients() {
  gradients_ = at::Tensor();
  for (Parameter& parameter : parameters_) parameter.gradient = at::Tensor();
}

void ParameterStore::lay_out() {
  const torch::autograd::AutoGradMode no_gradient(false);
  std::int64_t offset = 0;
  for (const bool frozen : {false, true}) {
    for (const bool decays : {true, false}) {
      for (Parameter& parameter : parameters_) {
        if (parameter.frozen != frozen || parameter.decays != decays) continue;
        parameter.offset = offset;
        offset += elements(parameter.shape);
      }
      if (decays && !frozen) decaying_ = offset;
    }
    // Kernels want the first frozen matrix as well aligned as the first of all.
    offset = rounded_up(offset, frozen_blocks_ > 0 ? multiple_ * kAlignedElements : multiple_);
    if (!frozen) trained_ = offset;
  }
  // One buffer of gradients at a time: they are zero between steps.
  release_gradients();
  gradients_ = at::zeros({trained_}, options_.dtype(at::kFloat));
  values_ = at::zeros({offset}, options_);
  for (Parameter& parameter : parameters_) {
    const std::int64_t count = elements(parameter.shape);
    const at::Tensor value = values_.narrow(0, parameter.offset, count).view(parameter.shape);
    if (parameter.value.defined()) value.copy_(parameter.value);
    parameter.value = value;
    if (parameter.frozen) continue;
    parameter.gradient = gradients_.narrow(0, parameter.offset, count).view(parameter.shape);
  }
}

at::Tensor joined(const at::Tensor& buffer, const Parameter& first, const Parameter& last) {
  std::vector<std::int64_t> shape = first.shape;
  const std::int64_t end = last.offset + elements(last.shape);
  const std::int64_t row = elements(first.shape) / first.shape.front();
  shape.front() = (end - first.offset) / row;
  return buffer.narrow(0, first.offset, end - first.offset).view(shape);
}

}  // namespace lowgear::trainer
