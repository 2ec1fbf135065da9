#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAException.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "training/trainer/model/kernels.h"

// Every kernel reads and writes each element once: they run at the speed of the memory. Arithmetic is in fp32.

namespace lowgear::trainer::kernels {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

template <typename Element>
struct Pair;
template <>
struct Pair<float> {
  static __device__ float2 load(const float* from) { return *reinterpret_cast<const float2*>(from); }
  static __device__ void store(float* to, float2 value) { *reinterpret_cast<float2*>(to) = value; }
};
template <>
struct Pair<__nv_bfloat16> {
  static __device__ float2 load(const __nv_bfloat16* from) {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from));
  }
  static __device__ void store(__nv_bfloat16* to, float2 value) {
    *reinterpret_cast<__nv_bfloat162*>(to) = __float22bfloat162_rn(value);
  }
};

template <>
struct Pair<__half> {
  static __device__ float2 load(const __half* from) { return __half22float2(*reinterpret_cast<const __half2*>(from)); }
  static __device__ void store(__half* to, float2 value) { *reinterpret_cast<__half2*>(to) = __float22half2_rn(value); }
};

/// Where the elements of one head at one time stand, apart and together.
struct HeadPlaces {
  std::int64_t time;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
};

/// One thread takes two neighbouring dimensions i, i + 1 of a head's first half with their partners in the second.
/// kBackward: from the three to the one, turned back.
template <typename Element, bool kBackward>
__global__ void rotate_kernel(Element* qkv, Element* query, Element* key, Element* value, const float* cosine,
                              const float* sine, HeadPlaces places, std::int64_t count) {
  const std::int64_t index = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x;
  if (index >= count) return;
  const std::int64_t half = places.head_dim / 2;
  const std::int64_t lanes = half / 2;
  const std::int64_t all_heads = places.heads + 2 * places.kv_heads;
  const std::int64_t i = index % lanes * 2;
  const std::int64_t head = index / lanes % all_heads;
  const std::int64_t row = index / (lanes * all_heads);  // batch and time
  Element* together = qkv + (row * all_heads + head) * places.head_dim + i;
  Element* apart = nullptr;
  if (head < places.heads) {
    apart = query + (row * places.heads + head) * places.head_dim + i;
  } else if (head < places.heads + places.kv_heads) {
    apart = key + (row * places.kv_heads + head - places.heads) * places.head_dim + i;
  } else {
    apart = value + (row * places.kv_heads + head - places.heads - places.kv_heads) * places.head_dim + i;
  }
  const Element* from = kBackward ? apart : together;
  Element* to = kBackward ? together : apart;
  float2 a = Pair<Element>::load(from);
  float2 b = Pair<Element>::load(from + half);
  if (head < places.heads + places.kv_heads) {
    const std::int64_t angle = row % places.time * half + i;
    const float2 c = *reinterpret_cast<const float2*>(cosine + angle);
    float2 s = *reinterpret_cast<const float2*>(sine + angle);
    if (kBackward) s = make_float2(-s.x, -s.y);
    const float2 turned_a = make_float2(a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y);
    b = make_float2(b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y);
    a = turned_a;
  }
  Pair<Element>::store(to, a);
  Pair<Element>::store(to + half, b);
}

__device__ float sigmoid(float x) { return 1.0F / (1.0F + __expf(-x)); }

template <typename Element>
__global__ void swiglu_kernel(const Element* gate_up, Element* output, std::int64_t width, std::int64_t count) {
  const std::int64_t index = (blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x) * 2;
  if (index >= count) return;
  const std::int64_t row = index / width;
  const Element* at = gate_up + row * width + index;  // rows are twice as wide there
  const float2 gate = Pair<Element>::load(at);
  const float2 up = Pair<Element>::load(at + width);
  Pair<Element>::store(output + index, make_float2(gate.x * sigmoid(gate.x) * up.x, gate.y * sigmoid(gate.y) * up.y));
}

__device__ float silu_slope(float x) {
  const float s = sigmoid(x);
  return s * (1.0F + x * (1.0F - s));
}

template <typename Element>
__global__ void swiglu_backward_kernel(const Element* gate_up, const Element* output_gradient, Element* gradient,
                                       std::int64_t width, std::int64_t count) {
  const std::int64_t index = (blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x) * 2;
  if (index >= count) return;
  const std::int64_t place = index / width * width + index;
  const float2 gate = Pair<Element>::load(gate_up + place);
  const float2 up = Pair<Element>::load(gate_up + place + width);
  const float2 g = Pair<Element>::load(output_gradient + index);
  Pair<Element>::store(gradient + place, make_float2(g.x * up.x * silu_slope(gate.x), g.y * up.y * silu_slope(gate.y)));
  Pair<Element>::store(gradient + place + width,
                       make_float2(g.x * gate.x * sigmoid(gate.x), g.y * gate.y * sigmoid(gate.y)));
}

/// Of all threads of the block, by `combine`; every thread gets it.
template <typename Combine>
__device__ float of_block(float own, Combine combine) {
  __shared__ float shared[kThreads];
  __syncthreads();  // the one before may still be read
  shared[threadIdx.x] = own;
  for (unsigned width = kThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + width]);
  }
  __syncthreads();
  return shared[0];
}

__device__ float as_float(float value) { return value; }
__device__ float as_float(__half value) { return __half2float(value); }
__device__ float as_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ void store(float* to, float value) { *to = value; }
__device__ void store(__half* to, float value) { *to = __float2half_rn(value); }
__device__ void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

/// A block a query. Keys after it are not read.
template <typename Element>
__global__ void masked_softmax_kernel(const Element* scores, Element* weights, float scale, std::int64_t length) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t allowed = row % length + 1;
  const Element* from = scores + row * length;
  Element* to = weights + row * length;
  const float lowest = -INFINITY;
  float largest = lowest;
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < allowed; i += kThreads) {
    const float x = scale * as_float(from[i]);
    if (x > largest) {
      sum *= __expf(largest - x);
      largest = x;
    }
    sum += __expf(x - largest);
  }
  const float peak = of_block(largest, [](float a, float b) { return fmaxf(a, b); });
  const float own = largest == lowest ? 0.0F : sum * __expf(largest - peak);
  const float total = of_block(own, [](float a, float b) { return a + b; });
  for (std::int64_t i = threadIdx.x; i < length; i += kThreads) {
    store(to + i, i < allowed ? __expf(scale * as_float(from[i]) - peak) / total : 0.0F);
  }
}

template <typename Element>
__global__ void masked_softmax_backward_kernel(const Element* weights, const Element* weight_gradient,
                                               Element* gradient, float scale, std::int64_t length) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t allowed = row % length + 1;
  const Element* w = weights + row * length;
  const Element* g = weight_gradient + row * length;
  float own = 0.0F;
  for (std::int64_t i = threadIdx.x; i < allowed; i += kThreads) own += as_float(w[i]) * as_float(g[i]);
  const float mean = of_block(own, [](float a, float b) { return a + b; });
  for (std::int64_t i = threadIdx.x; i < length; i += kThreads) {
    store(gradient + row * length + i, i < allowed ? scale * as_float(w[i]) * (as_float(g[i]) - mean) : 0.0F);
  }
}

struct AdamWFactors {
  float decay;
  float beta1;
  float beta2;
  float epsilon;
  float gradient_scale;
  float step_size;
  float variance_factor;
};

__global__ void adamw_kernel(float* master, float* mean, float* variance, const float* gradient, std::int64_t decaying,
                             AdamWFactors factors, std::int64_t count) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x;
  if (i >= count) return;
  const float g = gradient[i] * factors.gradient_scale;
  const float m = factors.beta1 * mean[i] + (1.0F - factors.beta1) * g;
  const float v = factors.beta2 * variance[i] + (1.0F - factors.beta2) * g * g;
  mean[i] = m;
  variance[i] = v;
  const float value = i < decaying ? master[i] * factors.decay : master[i];
  master[i] = value - factors.step_size * m / (sqrtf(v * factors.variance_factor) + factors.epsilon);
}

constexpr int kSums = 3;
/// Enough to keep the memory of any GPU busy; each one's sums are added in order, so that the result is the same each
/// time.
constexpr unsigned kMostSumBlocks = 1024;

/// Sums of a block of threads, [blocks, kSums].
__global__ void state_squares_kernel(double* sums, const float* master, const float* mean, const float* variance,
                                     AdamWFactors factors, std::int64_t count) {
  __shared__ double shared[kSums][kThreads];
  double own[kSums] = {};
  const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(kThreads);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < count; i += stride) {
    const float m = mean[i];
    const float change = factors.step_size * m / (sqrtf(variance[i] * factors.variance_factor) + factors.epsilon);
    const float value = master[i];
    own[0] += static_cast<double>(m) * m;
    own[1] += static_cast<double>(change) * change;
    own[2] += static_cast<double>(value) * value;
  }
  for (int sum = 0; sum < kSums; ++sum) shared[sum][threadIdx.x] = own[sum];
  for (unsigned width = kThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x >= width) continue;
    for (int sum = 0; sum < kSums; ++sum) shared[sum][threadIdx.x] += shared[sum][threadIdx.x + width];
  }
  if (threadIdx.x == 0) {
    for (int sum = 0; sum < kSums; ++sum) sums[blockIdx.x * kSums + sum] = shared[sum][0];
  }
}

/// Calls with the element's type of `tensor`: float, bf16 or fp16.
template <typename Call>
void with_element(const at::Tensor& tensor, Call&& call) {
  if (tensor.scalar_type() == at::kBFloat16) {
    call(static_cast<__nv_bfloat16*>(nullptr));
  } else if (tensor.scalar_type() == at::kHalf) {
    call(static_cast<__half*>(nullptr));
  } else {
    TORCH_CHECK(tensor.scalar_type() == at::kFloat, "kernels take fp32, bf16 and fp16");
    call(static_cast<float*>(nullptr));
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename Element>
Element* data_of(const at::Tensor& tensor) {
  return static_cast<Element*>(tensor.data_ptr());
}

template <bool kBackward>
void rotate(const at::Tensor& qkv, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
            const at::Tensor& cosine, const at::Tensor& sine, const AttentionHeads& heads) {
  TORCH_CHECK(heads.head_dim % 4 == 0, "the kernel takes heads of a multiple of 4 dimensions");
  const HeadPlaces places{qkv.size(1), heads.heads, heads.kv_heads, heads.head_dim};
  const std::int64_t count = qkv.numel() / 4;
  with_element(qkv, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    rotate_kernel<Element, kBackward><<<blocks_for(count), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        data_of<Element>(qkv), data_of<Element>(query), data_of<Element>(key), data_of<Element>(value),
        data_of<float>(cosine), data_of<float>(sine), places, count);
  });
}

}  // namespace

void split_and_rotate(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                      const AttentionHeads& heads, at::Tensor& query, at::Tensor& key, at::Tensor& value) {
  query = at::empty({qkv.size(0), qkv.size(1), heads.heads, heads.head_dim}, qkv.options());
  key = at::empty({qkv.size(0), qkv.size(1), heads.kv_heads, heads.head_dim}, qkv.options());
  value = at::empty_like(key);
  rotate<false>(qkv.contiguous(), query, key, value, cosine, sine, heads);
}

at::Tensor split_and_rotate_backward(const at::Tensor& query_gradient, const at::Tensor& key_gradient,
                                     const at::Tensor& value_gradient, const at::Tensor& cosine, const at::Tensor& sine,
                                     const AttentionHeads& heads) {
  const std::int64_t width = (heads.heads + 2 * heads.kv_heads) * heads.head_dim;
  const at::Tensor gradient =
      at::empty({query_gradient.size(0), query_gradient.size(1), width}, query_gradient.options());
  rotate<true>(gradient, query_gradient.contiguous(), key_gradient.contiguous(), value_gradient.contiguous(), cosine,
               sine, heads);
  return gradient;
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  const at::Tensor input = gate_up.contiguous();
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() /= 2;
  at::Tensor output = at::empty(shape, input.options());
  const std::int64_t width = shape.back();
  with_element(input, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    swiglu_kernel<<<blocks_for(output.numel() / 2), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        data_of<const Element>(input), data_of<Element>(output), width, output.numel());
  });
  return output;
}

at::Tensor swiglu_backward(const at::Tensor& gate_up, const at::Tensor& output_gradient) {
  const at::Tensor input = gate_up.contiguous();
  const at::Tensor incoming = output_gradient.contiguous();
  at::Tensor gradient = at::empty_like(input);
  const std::int64_t width = incoming.size(-1);
  with_element(input, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    swiglu_backward_kernel<<<blocks_for(incoming.numel() / 2), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        data_of<const Element>(input), data_of<const Element>(incoming), data_of<Element>(gradient), width,
        incoming.numel());
  });
  return gradient;
}

at::Tensor masked_softmax(const at::Tensor& scores, double scale) {
  const at::Tensor input = scores.contiguous();
  at::Tensor weights = at::empty_like(input);
  const std::int64_t length = input.size(-1);
  with_element(input, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    masked_softmax_kernel<<<static_cast<unsigned>(input.numel() / length), kThreads, 0,
                            at::cuda::getCurrentCUDAStream()>>>(data_of<const Element>(input), data_of<Element>(weights),
                                                                static_cast<float>(scale), length);
  });
  return weights;
}

at::Tensor masked_softmax_backward(const at::Tensor& weights, const at::Tensor& weight_gradient, double scale) {
  const at::Tensor made = weights.contiguous();
  const at::Tensor incoming = weight_gradient.contiguous();
  at::Tensor gradient = at::empty_like(made);
  const std::int64_t length = made.size(-1);
  with_element(made, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    masked_softmax_backward_kernel<<<static_cast<unsigned>(made.numel() / length), kThreads, 0,
                                     at::cuda::getCurrentCUDAStream()>>>(
        data_of<const Element>(made), data_of<const Element>(incoming), data_of<Element>(gradient),
        static_cast<float>(scale), length);
  });
  return gradient;
}

/// cuBLAS adds bf16 products to an fp32 sum within the multiplication (as Megatron's fused weight gradients do).
void add_weight_gradient(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& input) {
  if (input.scalar_type() != at::kBFloat16) {
    sum.add_(at::mm(output_gradient.t(), input));
    return;
  }
  const at::Tensor g = output_gradient.contiguous();
  const at::Tensor x = input.contiguous();
  const float one = 1.0F;
  const int in = static_cast<int>(x.size(1));
  const int out = static_cast<int>(g.size(1));
  // cuBLAS counts columns first: sumᵀ [in, out] += xᵀ [in, rows] · g [rows, out].
  TORCH_CUDABLAS_CHECK(cublasGemmEx(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_N, CUBLAS_OP_T, in, out,
                                    static_cast<int>(x.size(0)), &one, x.data_ptr(), CUDA_R_16BF, in, g.data_ptr(),
                                    CUDA_R_16BF, out, &one, sum.data_ptr(), CUDA_R_32F, in, CUBLAS_COMPUTE_32F,
                                    CUBLAS_GEMM_DEFAULT));
}

void adamw(const at::Tensor& master, const at::Tensor& mean, const at::Tensor& variance, const at::Tensor& gradient,
           std::int64_t decaying, const AdamWStep& step) {
  const AdamWFactors factors{.decay = static_cast<float>(1 - step.learning_rate * step.weight_decay),
                             .beta1 = static_cast<float>(step.beta1),
                             .beta2 = static_cast<float>(step.beta2),
                             .epsilon = static_cast<float>(step.epsilon),
                             .gradient_scale = static_cast<float>(step.gradient_scale),
                             .step_size = static_cast<float>(step.learning_rate / step.mean_correction),
                             .variance_factor = static_cast<float>(1 / step.variance_correction)};
  adamw_kernel<<<blocks_for(master.numel()), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      data_of<float>(master), data_of<float>(mean), data_of<float>(variance), data_of<const float>(gradient), decaying,
      factors, master.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void add_state_squares(const at::Tensor& sums, const at::Tensor& master, const at::Tensor& mean,
                       const at::Tensor& variance, const AdamWStep& step) {
  const AdamWFactors factors{.epsilon = static_cast<float>(step.epsilon),
                             .step_size = static_cast<float>(1 / step.mean_correction),
                             .variance_factor = static_cast<float>(1 / step.variance_correction)};
  const unsigned blocks = std::min(blocks_for(master.numel()), kMostSumBlocks);
  const at::Tensor parts = at::empty({static_cast<std::int64_t>(blocks), kSums}, sums.options());
  state_squares_kernel<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      data_of<double>(parts), data_of<const float>(master), data_of<const float>(mean), data_of<const float>(variance),
      factors, master.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  sums.add_(parts.sum(0));
}

}  // namespace lowgear::trainer::kernels
