#include "training/trainer/model/parameter_store.h"

#include <utility>

namespace lowgear::trainer {
namespace {

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

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

void ParameterStore::allocate(at::ScalarType type, at::Device device, std::int64_t multiple) {
  std::int64_t offset = 0;
  for (const bool decays : {true, false}) {
    for (Parameter& parameter : parameters_) {
      if (parameter.decays != decays) continue;
      parameter.offset = offset;
      offset += elements(parameter.shape);
    }
    if (decays) decaying_ = offset;
  }
  const auto options = at::TensorOptions().device(device);
  values_ = at::zeros({rounded_up(offset, multiple)}, options.dtype(type));
  gradients_ = at::zeros({values_.numel()}, options.dtype(at::kFloat));
  for (Parameter& parameter : parameters_) {
    const std::int64_t count = elements(parameter.shape);
    parameter.value = values_.narrow(0, parameter.offset, count).view(parameter.shape);
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
