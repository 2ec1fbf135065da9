#include "training/trainer/model/fused_operations.h"

namespace lowgear::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SplitAndRotate : torch::autograd::Function<SplitAndRotate> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& cosine,
                               const at::Tensor& sine, std::int64_t heads, std::int64_t kv_heads,
                               std::int64_t head_dim) {
    context->save_for_backward({cosine, sine});
    context->saved_data["heads"] = heads;
    context->saved_data["kv_heads"] = kv_heads;
    context->saved_data["head_dim"] = head_dim;
    at::Tensor query;
    at::Tensor key;
    at::Tensor value;
    kernels::split_and_rotate(qkv, cosine, sine, {heads, kv_heads, head_dim}, query, key, value);
    return {query, key, value};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const kernels::AttentionHeads heads{context->saved_data["heads"].toInt(), context->saved_data["kv_heads"].toInt(),
                                        context->saved_data["head_dim"].toInt()};
    const at::Tensor gradient =
        kernels::split_and_rotate_backward(gradients[0], gradients[1], gradients[2], saved[0], saved[1], heads);
    return {gradient, {}, {}, {}, {}, {}};
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
  const variable_list parts = SplitAndRotate::apply(qkv, cosine, sine, heads.heads, heads.kv_heads, heads.head_dim);
  return {parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2)};
}

at::Tensor swiglu(const at::Tensor& gate_up) { return SwiGlu::apply(gate_up); }

}  // namespace lowgear::trainer
