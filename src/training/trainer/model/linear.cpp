#include "training/trainer/model/linear.h"

#include <vector>

#include "training/trainer/model/kernels.h"

namespace lowgear::trainer {

namespace {

using fp8::Accumulation;
using fp8::Format;
using fp8::Orientations;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor as_matrix(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}); }

at::Tensor shaped_like(const at::Tensor& matrix, const at::Tensor& tensor) {
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  shape.back() = matrix.size(-1);
  return matrix.view(shape);
}

at::Tensor output_of_any_value(const at::Tensor& input, const LinearWeight& weight) {
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = weight.weight.size(0);
  return at::empty(shape, input.options());
}

const fp8::Cast& cast_of(LinearWeight& weight) {
  const std::uint64_t epoch = weight.fp8_blocks->weights_epoch;
  if (!weight.fp8 || weight.fp8->epoch != epoch) {
    weight.fp8.reset();  // its memory serves the new one
    weight.fp8 = Fp8Weight{fp8::cast(weight.weight, Format::e4m3, Orientations::both), epoch};
  }
  return weight.fp8->cast;
}

/// Factors of a layer's gradients: matrices whose product sums over the rows. `rows` is the output's gradient, for the
/// bias alone.
struct GradientFactors {
  fp8::Matrix output_gradient;
  fp8::Matrix input;
  at::Tensor rows;
};

void add_products(const LinearWeight& weight, const GradientFactors& factors) {
  const torch::autograd::AutoGradMode no_gradient(false);
  fp8::add_product(weight.weight_gradient, factors.output_gradient, factors.input);
  weight.store->gradient_added(weight.weight_gradient);
  if (!weight.bias.defined()) return;
  kernels::add_row_sum(weight.bias_gradient, factors.rows);
  weight.store->gradient_added(weight.bias_gradient);
}

void add_fp8_gradients(const c10::intrusive_ptr<LinearWeight>& weight, const GradientFactors& factors) {
  if (weight->queue != nullptr && weight->queue->deferring()) {
    weight->queue->put_off([weight, factors] { add_products(*weight, factors); });
  } else {
    add_products(*weight, factors);
  }
}

/// Input that a layer keeps for the gradient of its weight.
enum class Kept : unsigned char { nothing, fp8_input, input };

Kept kept_for(const at::Tensor& input, const LinearWeight& weight) {
  if (!torch::autograd::GradMode::is_enabled() || !input.requires_grad() || !weight.wants_gradient())
    return Kept::nothing;
  return weight.fp8_blocks->weight_gradients == WeightGradientType::fp8 ? Kept::fp8_input : Kept::input;
}

struct Fp8LinearFunction : torch::autograd::Function<Fp8LinearFunction> {
  // NOLINTNEXTLINE(readability-identifier-naming): names that autograd asks for
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const c10::intrusive_ptr<LinearWeight>& weight, Kept kept, LinearOutput output) {
    const fp8::Cast rows =
        fp8::cast(as_matrix(input), Format::e4m3, kept == Kept::fp8_input ? Orientations::both : Orientations::as_is);
    if (kept == Kept::fp8_input) context->save_for_backward({rows.transposed.bits, rows.transposed.factor});
    if (kept == Kept::input) context->save_for_backward({input});
    context->saved_data["weight"] = at::IValue::make_capsule(weight);
    if (output == LinearOutput::left_out) return output_of_any_value(input, *weight);
    const at::Tensor product =
        fp8::product(rows.as_is, cast_of(*weight).as_is, input.scalar_type(), Accumulation::fast);
    if (weight->bias.defined()) product.add_(weight->bias);
    return shaped_like(product, input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["weight"].toCapsule();
    const auto weight = c10::static_intrusive_pointer_cast<LinearWeight>(capsule);
    const at::Tensor& output_gradient = gradients.front();
    const at::Tensor rows = as_matrix(output_gradient);
    const variable_list saved = context->get_saved_variables();
    const bool all_in_fp8 = saved.size() == 2;
    const fp8::Cast cast = fp8::cast(rows, Format::e5m2, all_in_fp8 ? Orientations::both : Orientations::as_is);
    if (all_in_fp8) {
      add_fp8_gradients(
          weight, {cast.transposed, {saved[0], saved[1], Format::e4m3}, weight->bias.defined() ? rows : at::Tensor()});
    } else if (!saved.empty()) {
      add_gradients(weight, saved.front(), output_gradient);
    }
    const at::Tensor input_gradient =
        fp8::product(cast.as_is, cast_of(*weight).transposed, output_gradient.scalar_type(), Accumulation::fp32);
    return {shaped_like(input_gradient, output_gradient), {}, {}, {}};
  }
};

}  // namespace

at::Tensor fp8_linear(const at::Tensor& input, const c10::intrusive_ptr<LinearWeight>& weight, LinearOutput output) {
  return Fp8LinearFunction::apply(input, weight, kept_for(input, *weight), output);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void add_gradients_now(const LinearWeight& weight, const at::Tensor& input, const at::Tensor& output_gradient) {
  const torch::autograd::AutoGradMode no_gradient(false);
  const at::Tensor rows = output_gradient.reshape({-1, output_gradient.size(-1)});
  kernels::add_weight_gradient(weight.weight_gradient, rows, input.reshape({-1, input.size(-1)}));
  weight.store->gradient_added(weight.weight_gradient);
  if (!weight.bias.defined()) return;
  kernels::add_row_sum(weight.bias_gradient, rows);
  weight.store->gradient_added(weight.bias_gradient);
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  // NOLINTNEXTLINE(readability-identifier-naming): names that autograd asks for
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const c10::intrusive_ptr<LinearWeight>& weight, LinearOutput output) {
    if (weight->wants_gradient()) context->save_for_backward({input});
    context->saved_data["weight"] = at::IValue::make_capsule(weight);
    if (output == LinearOutput::left_out) return output_of_any_value(input, *weight);
    return weight->bias.defined() ? at::linear(input, weight->weight, weight->bias) : at::linear(input, weight->weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["weight"].toCapsule();
    const auto weight = c10::static_intrusive_pointer_cast<LinearWeight>(capsule);
    const at::Tensor& output_gradient = gradients.front();
    if (!saved.empty()) add_gradients(weight, saved.front(), output_gradient);
    return {at::matmul(output_gradient, weight->weight), {}, {}};
  }
};

/// To numbers of fp16, and so is the gradient.
at::Tensor rounded_to_fp16(const at::Tensor& values) { return values.to(at::kHalf).to(at::kFloat); }

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

at::Tensor linear(const at::Tensor& input, const c10::intrusive_ptr<LinearWeight>& weight, LinearOutput output) {
  if (weight->fp8_blocks != nullptr && weight->fp8_blocks->on) return fp8_linear(input, weight, output);
  if (weight->store != nullptr && weight->store->emulates_fp16()) {
    return rounded_to_fp16(LinearFunction::apply(rounded_to_fp16(input), weight, output));
  }
  return LinearFunction::apply(input, weight, output);
}

}  // namespace lowgear::trainer
