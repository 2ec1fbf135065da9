#pragma once

#include <cstdint>
#include <string>

#include "estimating/curve/curve_sample.h"

namespace lowgear::load {

/// A kernel in NVIDIA's PTX, which the driver compiles for its GPU. One block of `threads` fills a multiprocessor. A
/// block repeats chunks of work until it is told to stop; a chunk takes about a millisecond.
///
/// The first blocks multiply matrices whose elements stay on the multiprocessor, the others read device memory. The
/// elements are pseudo-random bits under ElementMasks. Values are not checked and not kept.
struct LoadKernel {
  std::string ptx;
  unsigned threads = 0;
  unsigned shared_bytes = 0;
  unsigned adds = 0;               ///< rounds of multiply-adds that take a chunk's time beside its products
  unsigned reads = 0;              ///< the same of reads of device memory, where it gives its highest rate
  double product_operations = 0;   ///< of a chunk of products; a multiply and an add are two
  double stream_bytes = 0;         ///< of a chunk of reads
  double add_bytes = 0;            ///< read from the last-level cache beside a chunk of products with additions
  double read_bytes = 0;           ///< read from device memory in one round beside the products
  std::uint64_t region_bytes = 0;  ///< a block's share of device memory is a multiple of this
};

/// Elements of 32 random bits: `bits & kept | set`.
struct ElementMasks {
  std::uint32_t kept = 0;
  std::uint32_t set = 0;
};
[[nodiscard]] ElementMasks element_masks(curve::ProductType type, curve::ProductData data);

/// Byte offset of the chunks that the first block has done, in the memory that a kernel shares with the host; each
/// block has eight bytes. A word before it tells the blocks to stop.
inline constexpr std::size_t kChunksOffset = 64;

inline constexpr const char* kLoadFunction = "work";
/// Fills device memory with pseudo-random bits: (address, number of 4-byte words).
inline constexpr const char* kFillFunction = "fill";

/// The kernel for a GPU of a compute capability (90: 9.0). Throws InputError where such a GPU has no products of the
/// type: the tensor cores of bf16 and tf32 begin with 8.0, of fp8 with 8.9.
[[nodiscard]] LoadKernel load_kernel(int compute_capability, curve::ProductType type);

}  // namespace lowgear::load
