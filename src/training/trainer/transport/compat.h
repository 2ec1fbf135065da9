#pragma once

// The one place that knows which libtorch this is built with: 1.13 (Debian 12) or 2.x (the wheels of GPU machines).

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <cstdint>
#include <vector>

namespace lowgear::trainer::compat {

/// Type of allocators' totals: signed in 1.13, unsigned in 2.x.
template <typename Method>
struct ReportedTotal;
template <typename Total>
struct ReportedTotal<void (c10::MemoryReportingInfoBase::*)(void*, std::int64_t, Total, Total, c10::Device)> {
  using Type = Total;
};
using MemoryTotal = ReportedTotal<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::Type;

/// softmax(scale q k^T) v; in causal attention each position sees itself and those before it, else all.
/// `query` is [batch, heads, time, head_dim]; `key` and `value` are [batch, kv_heads, time, head_dim] with heads a
/// multiple of kv_heads: query head h reads key head h / (heads / kv_heads).
inline at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double scale,
                            bool causal) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(query, key, value, {}, 0.0, causal, scale, query.size(1) != key.size(1));
#else
  const std::int64_t group = query.size(1) / key.size(1);
  const at::Tensor keys = group == 1 ? key : key.repeat_interleave(group, 1);
  const at::Tensor values = group == 1 ? value : value.repeat_interleave(group, 1);
  at::Tensor scores = at::matmul(query, keys.transpose(2, 3)).mul(scale);
  if (causal) {
    const std::int64_t time = query.size(2);
    const at::Tensor later = at::ones({time, time}, query.options().dtype(at::kBool)).triu(1);
    scores = scores.masked_fill(later, -INFINITY);
  }
  return at::matmul(scores.softmax(-1), values);
#endif
}

/// input / sqrt(mean(input²) + epsilon) over the last dimension, times `weight`; the mean is taken in fp32.
inline at::Tensor rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon) {
#if TORCH_VERSION_MAJOR >= 2
  return at::rms_norm(input, {input.size(-1)}, weight, epsilon);
#else
  const at::Tensor wide = input.to(at::kFloat);
  const at::Tensor scale = wide.square().mean(-1, true).add(epsilon).rsqrt();
  return weight * (wide * scale).to(input.scalar_type());
#endif
}

}  // namespace lowgear::trainer::compat
