#include "training/trainer/model/linear.h"

#include "training/trainer/model/kernels.h"

namespace lowgear::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void add_gradients_now(const LinearWeight& weight, const at::Tensor& input, const at::Tensor& output_gradient) {
  const torch::autograd::AutoGradMode no_gradient(false);
  const at::Tensor rows = output_gradient.reshape({-1, output_gradient.size(-1)});
  kernels::add_weight_gradient(weight.weight_gradient, rows, input.reshape({-1, input.size(-1)}));
  weight.store->gradient_added(weight.weight_gradient);
  if (!weight.bias.defined()) return;
  weight.bias_gradient.add_(rows.sum(0));
  weight.store->gradient_added(weight.bias_gradient);
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  // NOLINTNEXTLINE(readability-identifier-naming): names that autograd asks for
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const c10::intrusive_ptr<LinearWeight>& weight) {
    if (weight->wants_gradient()) context->save_for_backward({input});
    context->saved_data["weight"] = at::IValue::make_capsule(weight);
    return weight->bias.defined() ? at::linear(input, weight->weight, weight->bias) : at::linear(input, weight->weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["weight"].toCapsule();
    const auto weight = c10::static_intrusive_pointer_cast<LinearWeight>(capsule);
    const at::Tensor& output_gradient = gradients.front();
    if (!saved.empty()) add_gradients(weight, saved.front(), output_gradient);
    return {at::matmul(output_gradient, weight->weight), {}};
  }
};

}  // namespace

void add_gradients(const c10::intrusive_ptr<LinearWeight>& weight, const at::Tensor& input,
                   const at::Tensor& output_gradient) {
  if (!weight->wants_gradient()) {
    // Frozen, and what comes before it is not: a tied output matrix. Or left out by this step.
  } else if (weight->queue != nullptr && weight->queue->deferring()) {
    weight->queue->put_off([weight, input, output_gradient] { add_gradients_now(*weight, input, output_gradient); });
  } else {
    add_gradients_now(*weight, input, output_gradient);
  }
}

at::Tensor linear(const at::Tensor& input, const c10::intrusive_ptr<LinearWeight>& weight) {
  if (weight->fp8_blocks != nullptr && weight->fp8_blocks->on) return fp8_linear(input, weight);
  return LinearFunction::apply(input, weight);
}

}  // namespace lowgear::trainer
