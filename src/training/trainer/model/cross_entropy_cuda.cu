#include <cstdint>

#include "training/trainer/model/kernels.h"
#include "training/trainer/model/kernels_cuda.h"

namespace lowgear::trainer::kernels {
namespace {

template <int kCount>
__device__ void add_exponentials(float2& to, const float (&values)[kCount]) {
  float most = to.x;
#pragma unroll
  for (int i = 0; i < kCount; ++i) most = fmaxf(most, values[i]);
  if (most == kLowest) return;
  float sum = to.y * exp2_fast((to.x - most) * kLog2E);
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum += exp2_fast((values[i] - most) * kLog2E);
  to = make_float2(most, sum);
}

constexpr unsigned kLineBytes = 128;  // of the caches

/// A row of logits: the elements from the first 16 bytes that it has whole to the last, and those at its ends.
template <typename Element>
struct RowOfLogits {
  using Vector = WideVector<Element>;
  Element* logits;
  unsigned width;
  unsigned before;  ///< elements before the first vector
  unsigned vectors;

  __device__ RowOfLogits(Element* all, unsigned row, unsigned width) : width(width) {
    const std::int64_t begin = static_cast<std::int64_t>(row) * width;
    logits = all + begin;
    constexpr unsigned kLine = kLineBytes / sizeof(Element);
    before = min(width, (kLine - static_cast<unsigned>(begin % kLine)) % kLine);
    vectors = (width - before) / Vector::kElements;
  }
  __device__ Vector* at(unsigned vector) const { return reinterpret_cast<Vector*>(logits + before) + vector; }
  /// Elements in no vector, of which each thread has at most one.
  __device__ bool edge(unsigned& place) const {
    place = threadIdx.x < before ? threadIdx.x : before + vectors * Vector::kElements + threadIdx.x - before;
    return place < width && (place < before || place >= before + vectors * Vector::kElements);
  }
};

constexpr unsigned kForwardThreads = 256;
constexpr unsigned kBackwardThreads = 512;

/// A block has a row. This rank's part of the vocabulary begins with `first`.
template <typename Element>
__global__ void cross_entropy_kernel(Element* logits, const std::int64_t* targets, std::int64_t first, float* largest,
                                     float* sums, float* chosen, unsigned width) {
  using Vector = WideVector<Element>;
  const RowOfLogits<Element> row(logits, blockIdx.x, width);
  float2 own = make_float2(kLowest, 0.0F);
  unsigned edge = 0;
  if (row.edge(edge)) add_exponentials<1>(own, {as_float(row.logits[edge])});
  for (unsigned v = threadIdx.x; v < row.vectors; v += kForwardThreads) {
    const Vector vector = *row.at(v);
    float values[Vector::kElements];
#pragma unroll
    for (int i = 0; i < Vector::kElements; ++i) values[i] = vector[i];
    add_exponentials(own, values);
  }
  own = of_block(own, make_float2(kLowest, 0.0F), AddExponentials());
  if (threadIdx.x != 0) return;
  largest[blockIdx.x] = own.x;
  sums[blockIdx.x] = own.y;
  const std::int64_t target = targets[blockIdx.x] - first;
  chosen[blockIdx.x] = target >= 0 && target < width ? as_float(row.logits[target]) : 0.0F;
}

/// A block overwrites a row of logits by `share` times their gradients.
template <typename Element>
__global__ void cross_entropy_backward_kernel(Element* logits, const std::int64_t* targets, std::int64_t first,
                                              const float* log_sums, const float* gradient, float share,
                                              unsigned width) {
  using Vector = WideVector<Element>;
  const RowOfLogits<Element> row(logits, blockIdx.x, width);
  const std::int64_t target = targets[blockIdx.x] - first;
  const float log_sum = log_sums[blockIdx.x] * kLog2E;
  const float factor = *gradient * share;
  const auto gradient_of = [&](float logit, unsigned place) {
    return factor * (exp2_fast(logit * kLog2E - log_sum) - (place == target ? 1.0F : 0.0F));
  };
  unsigned edge = 0;
  if (row.edge(edge)) store(row.logits + edge, gradient_of(as_float(row.logits[edge]), edge));
  for (unsigned v = threadIdx.x; v < row.vectors; v += kBackwardThreads) {
    Vector vector = *row.at(v);
#pragma unroll
    for (int i = 0; i < Vector::kElements; ++i) {
      vector.set(i, gradient_of(vector[i], row.before + v * Vector::kElements + i));
    }
    *row.at(v) = vector;
  }
}

void check(const at::Tensor& logits) {
  TORCH_CHECK(logits.is_contiguous() && reinterpret_cast<std::uintptr_t>(logits.data_ptr()) % kLineBytes == 0,
              "the kernel takes logits that begin a line of the caches");
}

}  // namespace

LogitSums cross_entropy(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first) {
  check(logits);
  const at::Tensor largest = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  LogitSums result{largest, at::empty_like(largest), at::empty_like(largest)};
  const at::Tensor places = targets.contiguous();
  with_element(logits, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    cross_entropy_kernel<<<static_cast<unsigned>(logits.size(0)), kForwardThreads, 0,
                           at::cuda::getCurrentCUDAStream()>>>(
        data_of<Element>(logits), data_of<const std::int64_t>(places), first, data_of<float>(result.largest),
        data_of<float>(result.sums), data_of<float>(result.chosen), static_cast<unsigned>(logits.size(1)));
  });
  return result;
}

void cross_entropy_backward(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first,
                            const at::Tensor& log_sums, const at::Tensor& gradient) {
  check(logits);
  const at::Tensor places = targets.contiguous();
  with_element(logits, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    cross_entropy_backward_kernel<<<static_cast<unsigned>(logits.size(0)), kBackwardThreads, 0,
                                    at::cuda::getCurrentCUDAStream()>>>(
        data_of<Element>(logits), data_of<const std::int64_t>(places), first, data_of<const float>(log_sums),
        data_of<const float>(gradient), 1.0F / static_cast<float>(logits.size(0)),
        static_cast<unsigned>(logits.size(1)));
  });
}

}  // namespace lowgear::trainer::kernels
