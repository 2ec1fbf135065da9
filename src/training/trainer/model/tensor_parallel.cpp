#include "training/trainer/model/tensor_parallel.h"

namespace lowgear::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Hands a pointer to a backward pass. What it points to outlives every backward pass: models own both.
template <typename Object>
std::int64_t handle(Object& object) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(&object));
}

template <typename Object>
Object& object_of(const at::IValue& value) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): autograd keeps numbers, so that is how a pointer goes through it
  return *reinterpret_cast<Object*>(static_cast<std::uintptr_t>(value.toInt()));
}

struct EnterParallel : torch::autograd::Function<EnterParallel> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, std::int64_t group) {
    context->saved_data["group"] = group;
    return input.view_as(input);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor sum = gradients.front().contiguous().clone();
    object_of<Collective>(context->saved_data["group"]).all_reduce(sum);
    return {sum, {}};
  }
};

struct LeaveParallel : torch::autograd::Function<LeaveParallel> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& input, std::int64_t group) {
    at::Tensor sum = input.contiguous().clone();
    object_of<Collective>(at::IValue(group)).all_reduce(sum);
    return sum;
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) { return {gradients.front(), {}}; }
};

/// Ids within this rank's rows, and where ids are of other ranks.
struct LocalIds {
  at::Tensor ids;
  at::Tensor foreign;  ///< undefined on a group of one
};

LocalIds local_ids(const at::Tensor& ids, std::int64_t rows, const Collective& group) {
  if (group.size() == 1) return {ids, {}};
  const at::Tensor shifted = ids - rows * group.rank();
  const at::Tensor foreign = shifted.lt(0).logical_or(shifted.ge(rows));
  return {shifted.masked_fill(foreign, 0), foreign};
}

struct Embed : torch::autograd::Function<Embed> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*anchor*/, const at::Tensor& ids,
                            std::int64_t table, std::int64_t group) {
    const auto& parameter = object_of<Parameter>(at::IValue(table));
    auto& ranks = object_of<Collective>(at::IValue(group));
    const LocalIds local = local_ids(ids, parameter.value.size(0), ranks);
    context->saved_data["table"] = table;
    context->save_for_backward({local.ids, local.foreign});
    at::Tensor rows = at::embedding(parameter.value, local.ids);
    if (!local.foreign.defined()) return rows;
    rows = rows.masked_fill(local.foreign.unsqueeze(-1), 0);
    ranks.all_reduce(rows);
    return rows;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::autograd::AutoGradMode no_gradient(false);
    const variable_list saved = context->get_saved_variables();
    auto& parameter = object_of<Parameter>(context->saved_data["table"]);
    at::Tensor gradient = gradients.front();
    if (saved[1].defined()) gradient = gradient.masked_fill(saved[1].unsqueeze(-1), 0);
    parameter.accumulate(at::embedding_dense_backward(gradient.contiguous(), saved[0], parameter.value.size(0),
                                                      /*padding_idx=*/-1, /*scale_grad_by_freq=*/false));
    return {at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

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
    context->save_for_backward({probabilities, places, local.foreign});
    context->saved_data["type"] = static_cast<std::int64_t>(logits.scalar_type());
    return (sums.squeeze(-1).log() - chosen).mean();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& probabilities = saved[0];
    at::Tensor hit = at::ones(saved[1].sizes(), probabilities.options());
    if (saved[2].defined()) hit = hit.masked_fill(saved[2].unsqueeze(-1), 0);
    const at::Tensor difference = probabilities.scatter_add(-1, saved[1], hit.neg());
    const auto rows = static_cast<double>(probabilities.size(0));
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    return {difference.mul_(gradients.front() / rows).to(type), {}, {}};
  }
};

}  // namespace

at::Tensor enter_parallel(const at::Tensor& input, Collective& group) {
  return group.size() == 1 ? input : EnterParallel::apply(input, handle(group));
}

at::Tensor leave_parallel(const at::Tensor& input, Collective& group) {
  return group.size() == 1 ? input : LeaveParallel::apply(input, handle(group));
}

at::Tensor embed(const at::Tensor& ids, Parameter& table, const at::Tensor& anchor, Collective& group) {
  return Embed::apply(anchor, ids, handle(table), handle(group));
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, Collective& group) {
  if (group.size() == 1) return at::cross_entropy_loss(logits.to(at::kFloat), targets);
  return SplitCrossEntropy::apply(logits, targets, handle(group));
}

}  // namespace lowgear::trainer
