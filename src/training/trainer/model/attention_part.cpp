#include "training/trainer/model/attention_part.h"

namespace lowgear::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::AutoGradMode;
using torch::autograd::variable_list;

/// The inputs that a part has besides the residual, which stands in for those that it does not have.
struct PartInputs {
  bool branch = false;
  bool beside = false;
};

/// Keeps the sum, as the layer does without recomputation. Neither the last product nor the sum over the ranks is
/// computed again.
struct RecomputedPart : torch::autograd::Function<RecomputedPart> {
  // NOLINTNEXTLINE(readability-identifier-naming): names that autograd asks for
  static variable_list forward(AutogradContext* context, const at::Tensor& residual, const at::Tensor& branch,
                               const at::Tensor& beside, const PartInputs& has, std::int64_t part) {
    const at::Tensor given = has.beside ? beside : at::Tensor();
    const Activations computed =
        object_of<const AttentionPart>(at::IValue(part))
            .up_to_product({residual, has.branch ? branch : at::Tensor()}, given, LinearOutput::computed);
    const at::Tensor sum = has.branch ? computed.residual : residual.view_as(residual);
    context->save_for_backward({sum, given});
    context->saved_data["has_branch"] = has.branch;
    context->saved_data["part"] = part;
    return {sum, computed.branch};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const AutoGradMode with_gradients(true);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor sum = saved[0].detach().requires_grad_(true);
    const at::Tensor beside =
        saved[1].defined() ? saved[1].detach().requires_grad_(saved[1].requires_grad()) : at::Tensor();
    const Activations computed = object_of<const AttentionPart>(context->saved_data["part"])
                                     .up_to_product({sum}, beside, LinearOutput::left_out);
    torch::autograd::backward({computed.residual, computed.branch}, gradients);
    return {sum.grad(),
            context->saved_data["has_branch"].toBool() ? sum.grad() : at::Tensor(),
            beside.defined() ? beside.grad() : at::Tensor(),
            {},
            {}};
  }
};

}  // namespace

Activations AttentionPart::up_to_product(const Activations& entered, const at::Tensor& beside,
                                         LinearOutput product) const {
  if (norm_ == nullptr) return {entered.sum(), attention_->product(entered.sum(), beside, product)};
  const NormalisedSum normalised = (*norm_)(entered);
  return {normalised.sum, attention_->product(normalised.normalised, beside, product)};
}

Activations AttentionPart::operator()(const Activations& entered, const at::Tensor& beside) const {
  Activations computed;
  if (recomputes_ && torch::autograd::GradMode::is_enabled()) {
    const at::Tensor residual = asking_for_gradients(entered.residual);
    const PartInputs has{.branch = entered.branch.defined(), .beside = beside.defined()};
    const variable_list outputs = RecomputedPart::apply(residual, has.branch ? entered.branch : residual,
                                                        has.beside ? beside : residual, has, handle(*this));
    computed = {outputs[0], outputs[1]};
  } else {
    computed = up_to_product(entered, beside, LinearOutput::computed);
  }
  return {computed.residual, attention_->finished(computed.branch)};
}

}  // namespace lowgear::trainer
