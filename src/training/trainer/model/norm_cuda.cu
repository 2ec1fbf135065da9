#include <cuda_pipeline_primitives.h>

#include <algorithm>
#include <cstdint>

#include "training/trainer/model/kernels.h"
#include "training/trainer/model/kernels_cuda.h"

namespace lowgear::trainer::kernels {
namespace {

constexpr unsigned kMostThreads = 512;

/// A block normalises a row, of which each thread holds kVectors vectors.
template <typename Vector, int kVectors, bool kCentred>
__global__ void __launch_bounds__(kMostThreads)
    norm_kernel(const Vector* residual, const Vector* branch, const Vector* weight, const Vector* bias, Vector* sum,
                Vector* output, float* means, float* scales, float epsilon, unsigned vectors) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * vectors;
  const auto count = static_cast<float>(vectors * Vector::kElements);
  Vector own[kVectors];
  float total = 0.0F;
  float squares = 0.0F;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const unsigned column = v * blockDim.x + threadIdx.x;
    if (column >= vectors) continue;
    own[v] = residual[row + column];
    if (branch != nullptr) {
      const Vector added = branch[row + column];
#pragma unroll
      for (int i = 0; i < Vector::kElements; ++i) own[v].set(i, own[v][i] + added[i]);
      sum[row + column] = own[v];
    }
#pragma unroll
    for (int i = 0; i < Vector::kElements; ++i) {
      total += own[v][i];
      squares += own[v][i] * own[v][i];
    }
  }
  float mean = 0.0F;
  if (kCentred) {
    mean = sum_of_block(total) / count;
    squares = 0.0F;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (v * blockDim.x + threadIdx.x >= vectors) continue;
#pragma unroll
      for (int i = 0; i < Vector::kElements; ++i) squares += (own[v][i] - mean) * (own[v][i] - mean);
    }
  }
  const float scale = rsqrtf(sum_of_block(squares) / count + epsilon);
  if (threadIdx.x == 0) {
    if (kCentred) means[blockIdx.x] = mean;
    scales[blockIdx.x] = scale;
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const unsigned column = v * blockDim.x + threadIdx.x;
    if (column >= vectors) continue;
    const Vector factor = weight[column];
#pragma unroll
    for (int i = 0; i < Vector::kElements; ++i) {
      const float normalised = (own[v][i] - mean) * scale * factor[i];
      own[v].set(i, kCentred ? normalised + bias[column][i] : normalised);
    }
    output[row + column] = own[v];
  }
}

template <typename Vector>
struct NormBackward {
  const Vector* input;
  const Vector* weight;
  const Vector* gradient;  ///< of the normalised rows
  const Vector* residual;  ///< gradient of the rows themselves, or null
  Vector* result;
  float* parts;  ///< [blocks, weight and bias, width], or null
  const float* means;
  const float* scales;
  unsigned rows;
  unsigned vectors;
};

constexpr int kTensors = 3;  // that the backward pass reads

/// The rows that a thread reads: kAhead of them are on their way to shared memory, where each thread has its own place.
template <typename Vector, int kVectors, int kAhead>
class RowsAhead {
 public:
  __device__ RowsAhead(const NormBackward<Vector>& from, Vector* shared) : from_(from), own_(shared + threadIdx.x) {
    for (int i = 0; i < kAhead; ++i) fetch(blockIdx.x + i * gridDim.x);
  }
  /// Waits for the next row.
  __device__ void next() { __pipeline_wait_prior(kAhead - 1); }
  /// Vectors of the row that `next` waited for.
  [[nodiscard]] __device__ Vector input(int v) const { return *at(0, v); }
  [[nodiscard]] __device__ Vector gradient(int v) const { return *at(1, v); }
  [[nodiscard]] __device__ Vector residual(int v) const { return *at(2, v); }
  /// Starts to load row `number` into the place of the row that `next` waited for.
  __device__ void fetch(unsigned number) {
    if (number < from_.rows) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const unsigned column = v * blockDim.x + threadIdx.x;
        if (column >= from_.vectors) continue;
        const std::int64_t place = static_cast<std::int64_t>(number) * from_.vectors + column;
        copy(at(0, v), from_.input + place);
        copy(at(1, v), from_.gradient + place);
        if (from_.residual != nullptr) copy(at(2, v), from_.residual + place);
      }
    }
    __pipeline_commit();
    stage_ = stage_ + 1 == kAhead ? 0 : stage_ + 1;
  }

 private:
  __device__ Vector* at(int tensor, int v) const {
    return own_ + ((stage_ * kTensors + tensor) * kVectors + v) * blockDim.x;
  }
  static __device__ void copy(Vector* to, const Vector* from) {
    if constexpr (sizeof(Vector) >= 4) {
      __pipeline_memcpy_async(to, from, sizeof(Vector));
    } else {
      *to = *from;
    }
  }

  const NormBackward<Vector>& from_;
  Vector* own_;
  int stage_ = 0;
};

/// Writes a block's sums to its part.
template <bool kCentred, typename Vector, int kVectors>
__device__ void keep_sums(const NormBackward<Vector>& to,
                          const Packed<float, Vector::kElements> (&weight_sums)[kVectors],
                          const Packed<float, Vector::kElements> (&bias_sums)[kVectors]) {
  auto* parts = reinterpret_cast<Packed<float, Vector::kElements>*>(to.parts);
  parts += static_cast<std::int64_t>(blockIdx.x) * (kCentred ? 2 : 1) * to.vectors;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const unsigned column = v * blockDim.x + threadIdx.x;
    if (column >= to.vectors) continue;
    parts[column] = weight_sums[v];
    if (kCentred) parts[to.vectors + column] = bias_sums[v];
  }
}

/// A block takes every gridDim-th row, and keeps its sums of the weight's and the bias's gradient in registers.
template <typename Vector, int kVectors, bool kCentred, int kAhead>
__global__ void __launch_bounds__(kMostThreads) norm_backward_kernel(NormBackward<Vector> to) {
  extern __shared__ uint4 shared[];
  constexpr int kElements = Vector::kElements;
  RowsAhead<Vector, kVectors, kAhead> rows(to, reinterpret_cast<Vector*>(shared));
  Packed<float, kElements> weight_sums[kVectors] = {};
  Packed<float, kElements> bias_sums[kVectors] = {};
  Vector weight[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const unsigned column = v * blockDim.x + threadIdx.x;
    if (column < to.vectors) weight[v] = to.weight[column];
  }
  const float share = 1.0F / static_cast<float>(to.vectors * kElements);
  for (unsigned number = blockIdx.x; number < to.rows; number += gridDim.x) {
    const float mean = kCentred ? to.means[number] : 0.0F;
    const float scale = to.scales[number];
    rows.next();
    float2 own = make_float2(0.0F, 0.0F);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (v * blockDim.x + threadIdx.x >= to.vectors) continue;
      const Vector input = rows.input(v);
      const Vector gradient = rows.gradient(v);
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const float normalised = (input[i] - mean) * scale;
        const float weighted = gradient[i] * weight[v][i];
        weight_sums[v].elements[i] += gradient[i] * normalised;
        if (kCentred) bias_sums[v].elements[i] += gradient[i];
        own.x += weighted * normalised;
        if (kCentred) own.y += weighted;
      }
    }
    if (kCentred) {
      own = sum_of_block(own);
    } else {
      own.x = sum_of_block(own.x);
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const unsigned column = v * blockDim.x + threadIdx.x;
      if (column >= to.vectors) continue;
      const Vector input = rows.input(v);
      const Vector gradient = rows.gradient(v);
      Vector residual;
      if (to.residual != nullptr) residual = rows.residual(v);
      Vector result;
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const float normalised = (input[i] - mean) * scale;
        const float passed = scale * (gradient[i] * weight[v][i] - share * (normalised * own.x + own.y));
        result.set(i, to.residual != nullptr ? passed + residual[i] : passed);
      }
      to.result[static_cast<std::int64_t>(number) * to.vectors + column] = result;
    }
    rows.fetch(number + kAhead * gridDim.x);
  }
  if (to.parts != nullptr) keep_sums<kCentred>(to, weight_sums, bias_sums);
}

constexpr unsigned kColumns = 16;
constexpr unsigned kGroups = 64;

/// Adds the columns of `parts` [blocks, weight and bias, width] to the sum of each, blockIdx.y. A block has kColumns
/// columns, in kGroups groups of rows.
__global__ void add_parts_kernel(const float* parts, float* weight_sum, float* bias_sum, unsigned blocks,
                                 unsigned width) {
  __shared__ float groups[kGroups][kColumns + 1];
  const unsigned column = blockIdx.x * kColumns + threadIdx.x;
  float* const sum = blockIdx.y == 0 ? weight_sum : bias_sum;
  const unsigned stride = gridDim.y * width;
  parts += blockIdx.y * width;
  float own = 0.0F;
  if (column < width) {
#pragma unroll 8
    for (unsigned block = threadIdx.y; block < blocks; block += kGroups) {
      own += parts[static_cast<std::int64_t>(block) * stride + column];
    }
  }
  groups[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  // A warp adds each column.
  const unsigned thread = threadIdx.y * kColumns + threadIdx.x;
  const unsigned warp = thread / kWarp;
  if (warp >= kColumns) return;
  own = 0.0F;
  for (unsigned group = thread % kWarp; group < kGroups; group += kWarp) own += groups[group][warp];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) own += of_other_lane(own, distance);
  const unsigned summed = blockIdx.x * kColumns + warp;
  if (thread % kWarp == 0 && summed < width) sum[summed] += own;
}

/// Vectors that a thread has of each row, and rows that it loads ahead.
template <int kCount>
struct Share {
  static constexpr int kVectors = kCount;
  static constexpr int kAhead = kCount == 1 ? 2 : 1;
};
constexpr unsigned kMostVectors = 4;

/// Calls with the vector's type, a thread's share of a row, the row's vectors and the threads for it.
template <typename Call>
void with_rows(const at::Tensor& rows, bool wide, Call&& call) {
  with_vectors(rows, wide, [&](auto* type) {
    const auto vectors = static_cast<unsigned>(rows.size(-1)) / std::remove_pointer_t<decltype(type)>::kElements;
    TORCH_CHECK(vectors <= kMostThreads * kMostVectors, "the kernel takes no rows of ", rows.size(-1), " elements");
    const auto threads = [&](unsigned share) { return (vectors + share * kWarp - 1) / (share * kWarp) * kWarp; };
    if (vectors <= kMostThreads) {
      call(type, Share<1>(), vectors, threads(1));
    } else {
      call(type, Share<kMostVectors>(), vectors, threads(kMostVectors));
    }
  });
}

/// Blocks that run at once, and whose shared memory the kernel is allowed.
template <typename Kernel>
unsigned blocks_at_once(Kernel kernel, unsigned threads, std::size_t shared) {
  int of_one = 0;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  C10_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_one, kernel, static_cast<int>(threads), shared));
  return static_cast<unsigned>(of_one * at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
}

/// `parts` is [blocks, weight and bias, width].
void add_parts(const at::Tensor& parts, const NormWeights& sums) {
  const auto width = static_cast<unsigned>(parts.size(2));
  const dim3 grid((width + kColumns - 1) / kColumns, static_cast<unsigned>(parts.size(1)));
  add_parts_kernel<<<grid, dim3(kColumns, kGroups), 0, at::cuda::getCurrentCUDAStream()>>>(
      data_of<const float>(parts), data_of<float>(sums.weight), data_of<float>(sums.bias),
      static_cast<unsigned>(parts.size(0)), width);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

NormalisedRows add_and_normalise(const at::Tensor& residual, const at::Tensor& branch, const NormWeights& weights,
                                 double epsilon) {
  const at::Tensor input = residual.contiguous();
  const at::Tensor added = branch.defined() ? branch.contiguous() : branch;
  const std::int64_t rows = input.numel() / input.size(-1);
  const bool centred = weights.bias.defined();
  NormalisedRows result;
  result.sum = added.defined() ? at::empty_like(input) : input;
  result.normalised = at::empty_like(input);
  result.scales = at::empty({rows}, input.options().dtype(at::kFloat));
  if (centred) result.means = at::empty_like(result.scales);
  const bool wide = takes_vectors(input.size(-1), {input, added, weights.weight, weights.bias});
  with_rows(input, wide, [&](auto* type, auto share, unsigned vectors, unsigned threads) {
    using Vector = std::remove_pointer_t<decltype(type)>;
    const auto launch = [&](auto kernel) {
      kernel<<<static_cast<unsigned>(rows), threads, 0, at::cuda::getCurrentCUDAStream()>>>(
          data_of<const Vector>(input), data_of<const Vector>(added), data_of<const Vector>(weights.weight),
          data_of<const Vector>(weights.bias), data_of<Vector>(result.sum), data_of<Vector>(result.normalised),
          data_of<float>(result.means), data_of<float>(result.scales), static_cast<float>(epsilon), vectors);
    };
    if (centred) {
      launch(norm_kernel<Vector, decltype(share)::kVectors, true>);
    } else {
      launch(norm_kernel<Vector, decltype(share)::kVectors, false>);
    }
  });
  return result;
}

at::Tensor add_and_normalise_backward(const NormalisedRows& rows, const NormWeights& weights,
                                      const at::Tensor& normalised_gradient, const at::Tensor& sum_gradient,
                                      const NormWeights& sums) {
  const at::Tensor incoming = normalised_gradient.contiguous();
  const at::Tensor passed = sum_gradient.defined() ? sum_gradient.contiguous() : sum_gradient;
  at::Tensor result = at::empty_like(rows.sum);
  const std::int64_t width = rows.sum.size(-1);
  const std::int64_t count = rows.sum.numel() / width;
  const bool centred = weights.bias.defined();
  const bool wide = takes_vectors(width, {rows.sum, incoming, passed, weights.weight});
  at::Tensor parts;
  with_rows(rows.sum, wide, [&](auto* type, auto share, unsigned vectors, unsigned threads) {
    using Vector = std::remove_pointer_t<decltype(type)>;
    using Of = decltype(share);
    const auto launch = [&](auto kernel) {
      const std::size_t shared = std::size_t{threads} * Of::kVectors * Of::kAhead * kTensors * sizeof(Vector);
      const unsigned blocks = std::min(blocks_at_once(kernel, threads, shared), static_cast<unsigned>(count));
      if (sums.weight.defined()) parts = at::empty({blocks, centred ? 2 : 1, width}, rows.scales.options());
      kernel<<<blocks, threads, shared, at::cuda::getCurrentCUDAStream()>>>(NormBackward<Vector>{
          data_of<const Vector>(rows.sum), data_of<const Vector>(weights.weight), data_of<const Vector>(incoming),
          data_of<const Vector>(passed), data_of<Vector>(result), data_of<float>(parts), data_of<float>(rows.means),
          data_of<float>(rows.scales), static_cast<unsigned>(count), vectors});
    };
    if (centred) {
      launch(norm_backward_kernel<Vector, Of::kVectors, true, Of::kAhead>);
    } else {
      launch(norm_backward_kernel<Vector, Of::kVectors, false, Of::kAhead>);
    }
  });
  if (parts.defined()) add_parts(parts, sums);
  return result;
}

}  // namespace lowgear::trainer::kernels
