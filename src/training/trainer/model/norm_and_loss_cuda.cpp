#include <limits>

#include "training/trainer/model/kernels.h"
#include "training/trainer/model/norm_and_loss.h"
#include "training/trainer/model/operations.h"

namespace lowgear::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::NormWeights values_of(const NormParameters& parameters) {
  return {parameters.weight->value, parameters.bias == nullptr ? at::Tensor() : parameters.bias->value};
}

/// The gradients of weight and bias go straight to their sums.
struct AddAndNormalise : torch::autograd::Function<AddAndNormalise> {
  /// Without a branch, `branch` is the residual. The weight is an input only so that autograd calls back where nothing
  /// before the norm is trained.
  // NOLINTNEXTLINE(readability-identifier-naming): names that autograd asks for
  static variable_list forward(AutogradContext* context, const at::Tensor& residual, const at::Tensor& branch,
                               const at::Tensor& /*weight*/, bool has_branch, std::int64_t parameters) {
    const auto& norm = object_of<const NormParameters>(at::IValue(parameters));
    const kernels::NormalisedRows rows =
        kernels::add_and_normalise(residual, has_branch ? branch : at::Tensor(), values_of(norm), norm.epsilon);
    const at::Tensor sum = has_branch ? rows.sum : residual.view_as(residual);
    context->set_materialize_grads(false);
    context->save_for_backward({sum, rows.scales, rows.means});
    context->saved_data["has_branch"] = has_branch;
    context->saved_data["parameters"] = parameters;
    return {sum, rows.normalised};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::autograd::AutoGradMode no_gradient(false);
    const auto& norm = object_of<const NormParameters>(context->saved_data["parameters"]);
    const variable_list saved = context->get_saved_variables();
    const auto sum_of = [](const Parameter* parameter) {
      return parameter == nullptr || parameter->frozen ? at::Tensor() : parameter->gradient;
    };
    const kernels::NormWeights sums{sum_of(norm.weight), sum_of(norm.bias)};
    const at::Tensor gradient = kernels::add_and_normalise_backward({saved[0].contiguous(), {}, saved[1], saved[2]},
                                                                    values_of(norm), gradients[1], gradients[0], sums);
    for (const Parameter* parameter : {norm.weight, norm.bias}) {
      if (sum_of(parameter).defined()) parameter->store->gradient_added(parameter->gradient);
    }
    return {gradient, context->saved_data["has_branch"].toBool() ? gradient : at::Tensor(), {}, {}, {}};
  }
};

/// Over a vocabulary that may be split among ranks: maxima and sums are reduced, the logits stay where they are.
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  // NOLINTNEXTLINE(readability-identifier-naming): names that autograd asks for
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets,
                            std::int64_t group) {
    auto& ranks = object_of<Collective>(at::IValue(group));
    const std::int64_t first = logits.size(-1) * ranks.rank();
    const kernels::LogitSums rows = kernels::cross_entropy(logits, targets, first);
    if (ranks.size() > 1) {
      const at::Tensor own = rows.largest.clone();
      ranks.all_reduce(rows.largest, Reduction::maximum);
      rows.sums.mul_((own - rows.largest).exp_());
      ranks.all_reduce(rows.sums);
      ranks.all_reduce(rows.chosen);
    }
    const at::Tensor unused = targets.lt(0);
    // Where the sum is infinite, the gradient is 0.
    const at::Tensor log_sums =
        rows.sums.log().add_(rows.largest).masked_fill_(unused, std::numeric_limits<double>::infinity());
    context->save_for_backward({logits, targets, log_sums});
    context->saved_data["first"] = first;
    return (log_sums - rows.chosen).masked_fill_(unused, 0).mean();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor logits = saved[0].detach();
    kernels::cross_entropy_backward(logits, saved[1], context->saved_data["first"].toInt(), saved[2], gradients[0]);
    return {logits, {}, {}};
  }
};

}  // namespace

NormalisedSum add_and_normalise(const Activations& activations, const NormParameters& parameters) {
  const bool has_branch = activations.branch.defined();
  const variable_list outputs =
      AddAndNormalise::apply(activations.residual, has_branch ? activations.branch : activations.residual,
                             parameters.weight->value, has_branch, handle(parameters));
  return {outputs[0], outputs[1]};
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, Collective& group) {
  return CrossEntropy::apply(logits, targets, handle(group));
}

}  // namespace lowgear::trainer
