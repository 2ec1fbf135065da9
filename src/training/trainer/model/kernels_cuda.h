#pragma once

// What the CUDA kernels share: vectors of elements, sums of a block, launches.

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace lowgear::trainer::kernels {

inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;

__device__ inline float as_float(float value) { return value; }
__device__ inline float as_float(__half value) { return __half2float(value); }
__device__ inline float as_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline void store(float* to, float value) { *to = value; }
__device__ inline void store(__half* to, float value) { *to = __float2half_rn(value); }
__device__ inline void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

/// Elements that a thread loads and stores at once: 16 bytes, or one element where rows do not end at 16 bytes.
template <typename Type, int kSize>
struct alignas(sizeof(Type) * kSize) Packed {
  using Element = Type;
  static constexpr int kElements = kSize;
  Element elements[kSize];

  __device__ float operator[](int i) const { return as_float(elements[i]); }
  __device__ void set(int i, float value) { store(elements + i, value); }
};

/// 16 bytes of an element.
template <typename Element>
using WideVector = Packed<Element, 16 / sizeof(Element)>;

__device__ inline float of_other_lane(float own, int distance) { return __shfl_xor_sync(0xffffffffU, own, distance); }
__device__ inline double of_other_lane(double own, int distance) { return __shfl_xor_sync(0xffffffffU, own, distance); }
__device__ inline float2 of_other_lane(float2 own, int distance) {
  return make_float2(of_other_lane(own.x, distance), of_other_lane(own.y, distance));
}

/// Combines the numbers of all threads of a block, in the same order each time; every thread gets the result. `neutral`
/// combined with a number is the number. Blocks are of whole warps.
template <typename Number, typename Combine>
__device__ Number of_block(Number own, Number neutral, Combine combine) {
  __shared__ Number of_warps[kWarp];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) own = combine(own, of_other_lane(own, distance));
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return own;
  __syncthreads();  // the numbers before may still be read
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) of_warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  int places = 2;
  while (places < warps) places *= 2;
  own = lane % places < warps ? of_warps[lane % places] : neutral;
  for (int distance = places / 2; distance > 0; distance /= 2) own = combine(own, of_other_lane(own, distance));
  return own;
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
  __device__ double operator()(double a, double b) const { return a + b; }
  __device__ float2 operator()(float2 a, float2 b) const { return make_float2(a.x + b.x, a.y + b.y); }
};

__device__ inline double sum_of_block(double own) { return of_block(own, 0.0, Add()); }
__device__ inline float sum_of_block(float own) { return of_block(own, 0.0F, Add()); }
__device__ inline float2 sum_of_block(float2 own) { return of_block(own, make_float2(0.0F, 0.0F), Add()); }

inline constexpr float kLowest = -INFINITY;
inline constexpr float kLog2E = 1.4426950408889634F;

/// 2^x, in one instruction.
__device__ inline float exp2_fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// A sum of exponentials y · exp(x), kept apart so that none overflows (Milakov and Gimelshein 2018, "Online normalizer
/// calculation for softmax").
struct AddExponentials {
  __device__ float2 operator()(float2 a, float2 b) const {
    const float most = fmaxf(a.x, b.x);
    if (most == kLowest) return make_float2(kLowest, a.y + b.y);
    return make_float2(most, a.y * exp2_fast((a.x - most) * kLog2E) + b.y * exp2_fast((b.x - most) * kLog2E));
  }
};

template <typename Element>
Element* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<Element*>(tensor.data_ptr()) : nullptr;
}

/// Whether vectors of 16 bytes make up rows of `width` elements, and tensors begin with a whole one.
inline bool takes_vectors(std::int64_t width, std::initializer_list<at::Tensor> tensors) {
  constexpr std::uintptr_t kBytes = 16;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const auto bytes = static_cast<std::uintptr_t>(width) * tensor.element_size();
    if (bytes % kBytes != 0 || reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % kBytes != 0) return false;
  }
  return true;
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

/// Calls with vectors of the element's type of `tensor`: of 16 bytes if they are to be `wide`, else of one element.
template <typename Call>
void with_vectors(const at::Tensor& tensor, bool wide, Call&& call) {
  with_element(tensor, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    if (wide) {
      call(static_cast<WideVector<Element>*>(nullptr));
    } else {
      call(static_cast<Packed<Element, 1>*>(nullptr));
    }
  });
}

}  // namespace lowgear::trainer::kernels
