#include "training/trainer/model/operations.h"

namespace lowgear::trainer {

LocalIds local_ids(const at::Tensor& ids, std::int64_t rows, const Collective& group) {
  if (group.size() == 1) return {ids, {}};
  const at::Tensor shifted = ids - rows * group.rank();
  const at::Tensor foreign = shifted.lt(0).logical_or(shifted.ge(rows));
  return {shifted.masked_fill(foreign, 0), foreign};
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SplitAndRotate : torch::autograd::Function<SplitAndRotate> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& cosine,
                               const at::Tensor& sine, const kernels::AttentionHeads& heads) {
    context->save_for_backward({cosine, sine});
    context->saved_data["heads"] = heads.heads;
    context->saved_data["kv_heads"] = heads.kv_heads;
    context->saved_data["head_dim"] = heads.head_dim;
    context->saved_data["by_head"] = heads.by_head;
    at::Tensor query;
    at::Tensor key;
    at::Tensor value;
    kernels::split_and_rotate(qkv, cosine, sine, heads, query, key, value);
    return {query, key, value};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const kernels::AttentionHeads heads{context->saved_data["heads"].toInt(), context->saved_data["kv_heads"].toInt(),
                                        context->saved_data["head_dim"].toInt(),
                                        context->saved_data["by_head"].toBool()};
    const at::Tensor gradient =
        kernels::split_and_rotate_backward(gradients[0], gradients[1], gradients[2], saved[0], saved[1], heads);
    return {gradient, {}, {}, {}};
  }
};

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    context->save_for_backward({gate_up});
    return kernels::swiglu(gate_up);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {kernels::swiglu_backward(context->get_saved_variables().front(), gradients.front())};
  }
};

}  // namespace

RotatedHeads split_and_rotate(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                              const kernels::AttentionHeads& heads) {
  const variable_list parts = SplitAndRotate::apply(qkv, cosine, sine, heads);
  return {parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2)};
}

at::Tensor swiglu(const at::Tensor& gate_up) { return SwiGlu::apply(gate_up); }

}  // namespace lowgear::trainer
