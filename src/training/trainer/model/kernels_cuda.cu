#include <ATen/cuda/Exceptions.h>
#include <cublas_v2.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "training/trainer/model/kernels.h"
#include "training/trainer/model/kernels_cuda.h"

// Every kernel reads and writes each element once: they run at the speed of the memory. Arithmetic is in fp32.

namespace lowgear::trainer::kernels {
namespace {

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

/// Heads and times in a row of queries, keys and values.
struct HeadPlaces {
  unsigned time;
  unsigned heads;
  unsigned kv_heads;
  unsigned head_dim;
  unsigned turned;  ///< dimensions
  bool by_head;
};

/// A block has the heads of one row. A thread takes two vectors of a head, which are turned together if they are among
/// its first dimensions, and again every few heads, whose angles are the same. kBackward: from the three to the one,
/// turned back.
template <typename Vector, bool kBackward>
__global__ void rotate_kernel(Vector* __restrict__ together, Vector* __restrict__ query, Vector* __restrict__ key,
                              Vector* __restrict__ value, const float* __restrict__ cosine,
                              const float* __restrict__ sine, HeadPlaces places) {
  using Angles = Packed<float, Vector::kElements>;
  const unsigned half = places.head_dim / 2 / Vector::kElements;
  const unsigned turned_half = places.turned / 2 / Vector::kElements;
  const unsigned lane = threadIdx.x % half;
  const bool is_turned = lane < turned_half;
  const unsigned first = is_turned ? lane : 2 * lane;
  const unsigned second = is_turned ? lane + turned_half : 2 * lane + 1;
  const std::int64_t row = blockIdx.x;
  Angles c;
  Angles s;
  if (is_turned) {
    const unsigned angle = blockIdx.x % places.time * turned_half + lane;
    c = reinterpret_cast<const Angles*>(cosine)[angle];
    s = reinterpret_cast<const Angles*>(sine)[angle];
  }
  const unsigned queries_and_keys = places.heads + places.kv_heads;
  const unsigned all = queries_and_keys + places.kv_heads;
  for (unsigned head = threadIdx.x / half; head < all; head += blockDim.x / half) {
    Vector* apart = nullptr;
    if (head < places.heads) {
      apart = query + (row * places.heads + head) * 2 * half;
    } else if (head < queries_and_keys) {
      apart = key + (row * places.kv_heads + head - places.heads) * 2 * half;
    } else {
      apart = value + (row * places.kv_heads + head - queries_and_keys) * 2 * half;
    }
    const unsigned place = places.by_head ? head % places.heads * 3 + head / places.heads : head;
    Vector* joined = together + (row * all + place) * 2 * half;
    const Vector* from = kBackward ? apart : joined;
    Vector* to = kBackward ? joined : apart;
    Vector a = from[first];
    Vector b = from[second];
    if (is_turned && head < queries_and_keys) {
#pragma unroll
      for (int i = 0; i < Vector::kElements; ++i) {
        const float x = a[i];
        const float y = b[i];
        const float sine_of = kBackward ? -s[i] : s[i];
        a.set(i, x * c[i] - y * sine_of);
        b.set(i, y * c[i] + x * sine_of);
      }
    }
    to[first] = a;
    to[second] = b;
  }
}

__device__ float sigmoid(float x) { return __fdividef(1.0F, 1.0F + exp2_fast(-kLog2E * x)); }

/// `width` and `count` in vectors.
template <typename Vector>
__global__ void swiglu_kernel(const Vector* __restrict__ gate_up, Vector* __restrict__ output, unsigned width,
                              unsigned count) {
  const unsigned index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= count) return;
  const Vector* place = gate_up + static_cast<std::int64_t>(index / width) * width + index;  // rows are twice as wide
  const Vector gate = place[0];
  const Vector up = place[width];
  Vector result;
#pragma unroll
  for (int i = 0; i < Vector::kElements; ++i) result.set(i, gate[i] * sigmoid(gate[i]) * up[i]);
  output[index] = result;
}

template <typename Vector>
__global__ void swiglu_backward_kernel(const Vector* __restrict__ gate_up, const Vector* __restrict__ output_gradient,
                                       Vector* __restrict__ gradient, unsigned width, unsigned count) {
  const unsigned index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= count) return;
  const std::int64_t place = static_cast<std::int64_t>(index / width) * width + index;
  const Vector gate = gate_up[place];
  const Vector up = gate_up[place + width];
  const Vector incoming = output_gradient[index];
  Vector gate_gradient;
  Vector up_gradient;
#pragma unroll
  for (int i = 0; i < Vector::kElements; ++i) {
    const float s = sigmoid(gate[i]);
    const float silu = gate[i] * s;
    gate_gradient.set(i, incoming[i] * up[i] * (s + silu * (1.0F - s)));
    up_gradient.set(i, incoming[i] * silu);
  }
  gradient[place] = gate_gradient;
  gradient[place + width] = up_gradient;
}

/// A block a query. Keys after it are not read.
template <typename Element>
__global__ void masked_softmax_kernel(const Element* scores, Element* weights, float scale, std::int64_t length) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t allowed = row % length + 1;
  const Element* from = scores + row * length;
  Element* to = weights + row * length;
  const float2 none = make_float2(kLowest, 0.0F);
  float2 sum = none;
  for (std::int64_t i = threadIdx.x; i < allowed; i += kThreads) {
    sum = AddExponentials()(sum, make_float2(scale * as_float(from[i]), 1.0F));
  }
  sum = of_block(sum, none, AddExponentials());
  for (std::int64_t i = threadIdx.x; i < length; i += kThreads) {
    store(to + i, i < allowed ? __expf(scale * as_float(from[i]) - sum.x) / sum.y : 0.0F);
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
  const float mean = sum_of_block(own);
  for (std::int64_t i = threadIdx.x; i < length; i += kThreads) {
    store(gradient + row * length + i, i < allowed ? scale * as_float(w[i]) * (as_float(g[i]) - mean) : 0.0F);
  }
}

constexpr unsigned kSumLanes = 2;  // 32 bytes of each row: a sector of the memory
constexpr unsigned kSumRows = 256;

/// A block sums kSumLanes vectors of columns, of which kSumRows threads take every so many rows.
template <typename Vector>
__global__ void row_sum_kernel(const Vector* __restrict__ values, float* __restrict__ sums, unsigned rows,
                               unsigned vectors) {
  constexpr unsigned kColumns = kSumLanes * Vector::kElements;
  __shared__ float groups[kSumRows][kColumns + 1];
  const unsigned place = blockIdx.x * kSumLanes + threadIdx.x;
  Packed<float, Vector::kElements> own = {};
  if (place < vectors) {
#pragma unroll 8
    for (unsigned row = threadIdx.y; row < rows; row += kSumRows) {
      const Vector value = values[static_cast<std::int64_t>(row) * vectors + place];
#pragma unroll
      for (int i = 0; i < Vector::kElements; ++i) own.elements[i] += value[i];
    }
  }
#pragma unroll
  for (int i = 0; i < Vector::kElements; ++i) groups[threadIdx.y][threadIdx.x * Vector::kElements + i] = own[i];
  __syncthreads();
  // A warp adds each column.
  const unsigned thread = threadIdx.y * kSumLanes + threadIdx.x;
  const unsigned column = thread / kWarp;
  if (column >= kColumns) return;
  float sum = 0.0F;
  for (unsigned row = thread % kWarp; row < kSumRows; row += kWarp) sum += groups[row][column];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) sum += of_other_lane(sum, distance);
  const unsigned summed = blockIdx.x * kColumns + column;
  if (thread % kWarp == 0 && summed < vectors * Vector::kElements) sums[summed] += sum;
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
  for (int sum = 0; sum < kSums; ++sum) {
    const double of_all = sum_of_block(own[sum]);
    if (threadIdx.x == 0) sums[blockIdx.x * kSums + sum] = of_all;
  }
}

/// Sums of a block of threads.
__global__ void squares_kernel(double* sums, const float* values, std::int64_t count) {
  double own = 0;
  const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(kThreads);
#pragma unroll 8
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < count; i += stride) {
    own += static_cast<double>(values[i]) * values[i];
  }
  own = sum_of_block(own);
  if (threadIdx.x == 0) sums[blockIdx.x] = own;
}

template <bool kBackward>
void rotate(const at::Tensor& qkv, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
            const at::Tensor& cosine, const at::Tensor& sine, const AttentionHeads& heads) {
  TORCH_CHECK(heads.head_dim % 2 == 0, "the kernel takes heads of an even number of dimensions");
  const auto count = [](std::int64_t number) { return static_cast<unsigned>(number); };
  const HeadPlaces places{.time = count(qkv.size(1)),
                          .heads = count(heads.heads),
                          .kv_heads = count(heads.kv_heads),
                          .head_dim = count(heads.head_dim),
                          .turned = count(2 * cosine.size(-1)),
                          .by_head = heads.by_head};
  const bool wide = takes_vectors(heads.head_dim / 2, {qkv, query, key, value, cosine, sine}) &&
                    cosine.size(-1) * qkv.element_size() % 16 == 0;
  with_vectors(qkv, wide, [&](auto* type) {
    using Vector = std::remove_pointer_t<decltype(type)>;
    constexpr unsigned kLeastThreads = 192;
    const unsigned lanes = places.head_dim / 2 / Vector::kElements;
    const unsigned threads = (kLeastThreads + lanes - 1) / lanes * lanes;
    rotate_kernel<Vector, kBackward>
        <<<count(qkv.size(0) * qkv.size(1)), threads, 0, at::cuda::getCurrentCUDAStream()>>>(
            data_of<Vector>(qkv), data_of<Vector>(query), data_of<Vector>(key), data_of<Vector>(value),
            data_of<float>(cosine), data_of<float>(sine), places);
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
  if (output.numel() == 0) return output;  // of an expert that no token chose
  with_vectors(input, takes_vectors(shape.back(), {input}), [&](auto* type) {
    using Vector = std::remove_pointer_t<decltype(type)>;
    const std::int64_t count = output.numel() / Vector::kElements;
    swiglu_kernel<<<blocks_for(count), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        data_of<const Vector>(input), data_of<Vector>(output), static_cast<unsigned>(shape.back() / Vector::kElements),
        static_cast<unsigned>(count));
  });
  return output;
}

at::Tensor swiglu_backward(const at::Tensor& gate_up, const at::Tensor& output_gradient) {
  const at::Tensor input = gate_up.contiguous();
  const at::Tensor incoming = output_gradient.contiguous();
  at::Tensor gradient = at::empty_like(input);
  if (gradient.numel() == 0) return gradient;
  const std::int64_t width = incoming.size(-1);
  with_vectors(input, takes_vectors(width, {input, incoming}), [&](auto* type) {
    using Vector = std::remove_pointer_t<decltype(type)>;
    const std::int64_t count = incoming.numel() / Vector::kElements;
    swiglu_backward_kernel<<<blocks_for(count), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        data_of<const Vector>(input), data_of<const Vector>(incoming), data_of<Vector>(gradient),
        static_cast<unsigned>(width / Vector::kElements), static_cast<unsigned>(count));
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
                            at::cuda::getCurrentCUDAStream()>>>(
        data_of<const Element>(input), data_of<Element>(weights), static_cast<float>(scale), length);
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

/// cuBLAS adds products of bf16 or fp16 to an fp32 sum within the multiplication, as Megatron's fused weight gradients.
void add_weight_gradient(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& input) {
  if (input.size(0) == 0) return;
  if (input.scalar_type() == at::kFloat) {
    sum.add_(at::mm(output_gradient.t(), input));
    return;
  }
  const at::Tensor g = output_gradient.contiguous();
  const at::Tensor x = input.contiguous();
  const cudaDataType_t type = x.scalar_type() == at::kHalf ? CUDA_R_16F : CUDA_R_16BF;
  const float one = 1.0F;
  const int in = static_cast<int>(x.size(1));
  const int out = static_cast<int>(g.size(1));
  // cuBLAS counts columns first: sumᵀ [in, out] += xᵀ [in, rows] · g [rows, out].
  TORCH_CUDABLAS_CHECK(cublasGemmEx(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_N, CUBLAS_OP_T, in, out,
                                    static_cast<int>(x.size(0)), &one, x.data_ptr(), type, in, g.data_ptr(), type, out,
                                    &one, sum.data_ptr(), CUDA_R_32F, in, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void add_row_sum(const at::Tensor& sum, const at::Tensor& rows) {
  const at::Tensor values = rows.contiguous();
  with_vectors(values, takes_vectors(values.size(1), {values}), [&](auto* type) {
    using Vector = std::remove_pointer_t<decltype(type)>;
    const auto vectors = static_cast<unsigned>(values.size(1)) / Vector::kElements;
    row_sum_kernel<<<(vectors + kSumLanes - 1) / kSumLanes, dim3(kSumLanes, kSumRows), 0,
                     at::cuda::getCurrentCUDAStream()>>>(data_of<const Vector>(values), data_of<float>(sum),
                                                         static_cast<unsigned>(values.size(0)), vectors);
  });
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

at::Tensor sum_of_squares(const at::Tensor& values) {
  const unsigned blocks = std::min(blocks_for(values.numel()), kMostSumBlocks);
  const at::Tensor parts = at::empty({static_cast<std::int64_t>(blocks)}, values.options().dtype(at::kDouble));
  squares_kernel<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      data_of<double>(parts), data_of<const float>(values), values.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return parts.sum();
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
