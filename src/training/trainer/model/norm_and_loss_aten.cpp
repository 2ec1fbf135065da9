#include "training/trainer/model/norm_and_loss.h"
#include "training/trainer/model/operations.h"
#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

NormalisedSum add_and_normalise(const Activations& activations, const NormParameters& parameters) {
  const at::Tensor sum = activations.sum();
  const at::Tensor& weight = parameters.weight->value;
  if (parameters.bias == nullptr) return {sum, compat::rms_norm(sum, weight, parameters.epsilon)};
  return {sum, at::layer_norm(sum, {sum.size(-1)}, weight, parameters.bias->value, parameters.epsilon)};
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Over a vocabulary split among ranks: maxima and sums are reduced, the logits stay where they are.
struct SplitCrossEntropy : torch::autograd::Function<SplitCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets,
                            std::int64_t group) {
    auto& ranks = object_of<Collective>(at::IValue(group));
    const at::Tensor values = logits.to(at::kFloat);
    const at::Tensor largest = values.amax(-1, true);
    ranks.all_reduce(largest, Reduction::maximum);
    const at::Tensor exponentials = (values - largest).exp_();
    const at::Tensor sums = exponentials.sum(-1, true);
    ranks.all_reduce(sums);
    const LocalIds local = local_ids(targets, logits.size(-1), ranks);
    const at::Tensor places = local.ids.unsqueeze(-1);
    at::Tensor chosen = (values - largest).gather(-1, places).squeeze(-1);
    if (local.foreign.defined()) chosen = chosen.masked_fill(local.foreign, 0);
    ranks.all_reduce(chosen);
    const at::Tensor probabilities = exponentials.div_(sums);
    const at::Tensor unused = targets.lt(0);
    context->save_for_backward({probabilities, places, local.foreign, unused.unsqueeze(-1)});
    context->saved_data["type"] = static_cast<std::int64_t>(logits.scalar_type());
    return (sums.squeeze(-1).log() - chosen).masked_fill_(unused, 0).mean();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& probabilities = saved[0];
    at::Tensor hit = at::ones(saved[1].sizes(), probabilities.options());
    if (saved[2].defined()) hit = hit.masked_fill(saved[2].unsqueeze(-1), 0);
    const at::Tensor difference = probabilities.scatter_add(-1, saved[1], hit.neg());
    const auto rows = static_cast<double>(probabilities.size(0));
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    return {difference.mul_(gradients.front() / rows).masked_fill_(saved[3], 0).to(type), {}, {}};
  }
};

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, Collective& group) {
  if (group.size() == 1) {
    const auto rows = static_cast<double>(logits.size(0));
    return at::cross_entropy_loss(logits.to(at::kFloat), targets, {}, at::Reduction::Sum, kNoTarget).div(rows);
  }
  return SplitCrossEntropy::apply(logits, targets, handle(group));
}

}  // namespace lowgear::trainer
