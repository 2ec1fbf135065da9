#include <limits>
#include <vector>

#include "training/trainer/model/kernels.h"

namespace lowgear::trainer::kernels {
namespace {

/// Turns the first dimensions of [batch, time, heads, head_dim] by the angles of [time, half of them].
at::Tensor rotated(const at::Tensor& input, const at::Tensor& cosine, const at::Tensor& sine) {
  const std::int64_t dims = 2 * cosine.size(-1);
  const std::vector<at::Tensor> halves = input.narrow(-1, 0, dims).chunk(2, -1);
  return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine,
                  input.narrow(-1, dims, input.size(-1) - dims)},
                 -1);
}

at::Tensor angles_for(const at::Tensor& table, const at::Tensor& input) {
  return table.narrow(0, 0, input.size(1)).unsqueeze(1).to(input.scalar_type());
}

/// Queries, keys and values in [batch, time, heads of all, head_dim].
std::vector<at::Tensor> parts_of(const at::Tensor& joined, const AttentionHeads& heads) {
  if (!heads.by_head) return joined.split_with_sizes({heads.heads, heads.kv_heads, heads.kv_heads}, 2);
  return joined.view({joined.size(0), joined.size(1), heads.heads, 3, heads.head_dim}).unbind(3);
}

}  // namespace

void split_and_rotate(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                      const AttentionHeads& heads, at::Tensor& query, at::Tensor& key, at::Tensor& value) {
  const std::vector<at::Tensor> parts = parts_of(qkv.view({qkv.size(0), qkv.size(1), -1, heads.head_dim}), heads);
  const at::Tensor cosines = angles_for(cosine, qkv);
  const at::Tensor sines = angles_for(sine, qkv);
  query = rotated(parts[0], cosines, sines);
  key = rotated(parts[1], cosines, sines);
  value = parts[2].contiguous();
}

at::Tensor split_and_rotate_backward(const at::Tensor& query_gradient, const at::Tensor& key_gradient,
                                     const at::Tensor& value_gradient, const at::Tensor& cosine, const at::Tensor& sine,
                                     const AttentionHeads& heads) {
  const at::Tensor cosines = angles_for(cosine, query_gradient);
  const at::Tensor back = angles_for(sine, query_gradient).neg();
  const std::vector<at::Tensor> parts = {rotated(query_gradient, cosines, back), rotated(key_gradient, cosines, back),
                                         value_gradient};
  return (heads.by_head ? at::stack(parts, 3) : at::cat(parts, 2)).flatten(2);
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  const std::vector<at::Tensor> halves = gate_up.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor swiglu_backward(const at::Tensor& gate_up, const at::Tensor& output_gradient) {
  const std::vector<at::Tensor> halves = gate_up.chunk(2, -1);
  return at::cat({at::silu_backward(output_gradient * halves[1], halves[0]), output_gradient * at::silu(halves[0])},
                 -1);
}

at::Tensor masked_softmax(const at::Tensor& scores, double scale) {
  const at::Tensor later = at::ones({scores.size(-1), scores.size(-1)}, scores.options().dtype(at::kBool)).triu(1);
  return at::softmax((scores * scale).masked_fill_(later, -std::numeric_limits<double>::infinity()), -1);
}

at::Tensor masked_softmax_backward(const at::Tensor& weights, const at::Tensor& weight_gradient, double scale) {
  return at::_softmax_backward_data(weight_gradient, weights, -1, weights.scalar_type()).mul_(scale);
}

void add_weight_gradient(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& input) {
  sum.add_(at::mm(output_gradient.t(), input));
}

void add_row_sum(const at::Tensor& sum, const at::Tensor& rows) { sum.add_(rows.sum(0)); }

void adamw(const at::Tensor& master, const at::Tensor& mean, const at::Tensor& variance, const at::Tensor& gradient,
           std::int64_t decaying, const AdamWStep& step) {
  if (step.gradient_scale != 1.0) gradient.mul_(step.gradient_scale);
  mean.mul_(step.beta1).add_(gradient, 1 - step.beta1);
  variance.mul_(step.beta2).addcmul_(gradient, gradient, 1 - step.beta2);
  master.narrow(0, 0, decaying).mul_(1 - step.learning_rate * step.weight_decay);
  const at::Tensor denominator = variance.div(step.variance_correction).sqrt_().add_(step.epsilon);
  master.addcdiv_(mean, denominator, -step.learning_rate / step.mean_correction);
}

at::Tensor sum_of_squares(const at::Tensor& values) { return values.norm(2, at::kDouble).square(); }

void add_state_squares(const at::Tensor& sums, const at::Tensor& master, const at::Tensor& mean,
                       const at::Tensor& variance, const AdamWStep& step) {
  const at::Tensor root = variance.div(step.variance_correction).sqrt_().add_(step.epsilon);
  const at::Tensor change = mean.div(step.mean_correction).div_(root);
  const auto add = [&](std::int64_t index, const at::Tensor& tensor) {
    sums.select(0, index).add_(tensor.norm(2, at::kDouble).square());
  };
  add(0, mean);
  add(1, change);
  add(2, master);
}

}  // namespace lowgear::trainer::kernels
