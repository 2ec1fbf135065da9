#include "hardware/load/gpu_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/core/error.h"

namespace lowgear::load {
namespace {

/// More than the last-level cache for a few multiprocessors together.
constexpr std::size_t kRegionBytes = std::size_t{32} << 20U;
/// Parts of a region that stay in the last-level cache for all multiprocessors together.
constexpr std::uint64_t kCachedSteps = 2;
/// So many chunks take a minute or two, should nobody stop them.
constexpr std::uint64_t kMostChunks = 120'000;
/// Places of reads beside products are 32 bits.
constexpr std::uint64_t kMostWalked = std::uint64_t{1} << 32U;

unsigned read_rounds(const LoadKernel& kernel, const curve::CurveLoad& load) {
  return kernel.reads * static_cast<unsigned>(load.reads) / curve::kMostReads;
}

}  // namespace

CudaLoad::CudaLoad(const std::string& pci_address) : driver_(pci_address) {
  const auto blocks = static_cast<std::size_t>(driver_.multiprocessors());
  control_ = driver_.allocate_shared(kChunksOffset + 8 * blocks);
}

CudaLoad::~CudaLoad() {
  try {
    stop();
  } catch (const Error&) {  // the context goes, and the load with it
    running_ = nullptr;
  }
}

bool CudaLoad::multiplies(curve::ProductType type) const {
  try {
    (void)load_kernel(driver_.compute_capability(), type);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

const CudaLoad::Compiled& CudaLoad::compiled(const curve::CurveLoad& load) {
  const auto found = kernels_.find(load.type);
  if (found != kernels_.end()) return found->second;
  Compiled compiled;
  compiled.kernel = load_kernel(driver_.compute_capability(), load.type);
  void* module = driver_.load_module(compiled.kernel.ptx);
  compiled.work = driver_.function(module, kLoadFunction);
  driver_.allow_shared_bytes(compiled.work, compiled.kernel.shared_bytes);
  if (memory_ == 0) {
    region_bytes_ = kRegionBytes / compiled.kernel.region_bytes * compiled.kernel.region_bytes;
    std::uint64_t words = region_bytes_ * static_cast<std::size_t>(driver_.multiprocessors()) / 4;
    memory_ = driver_.allocate(words * 4);
    std::array<void*, 2> parameters = {&memory_, &words};
    constexpr unsigned kThreads = 256;
    driver_.launch(driver_.function(module, kFillFunction), 8U * static_cast<unsigned>(driver_.multiprocessors()),
                   kThreads, 0, parameters.data());
    driver_.synchronize();
  }
  return kernels_.emplace(load.type, std::move(compiled)).first->second;
}

void CudaLoad::start(const curve::CurveLoad& load) {
  stop();
  load_ = load;
  const int blocks = load.product_sms + load.stream_sms;
  if (blocks == 0) return;
  if (blocks > driver_.multiprocessors()) {
    throw InputError(fmt::format("{}: the GPU has {} multiprocessors", describe(load), driver_.multiprocessors()));
  }
  const Compiled& kernel = compiled(load);
  ElementMasks masks = element_masks(load.type, load.data);
  std::memset(control_.host, 0, kChunksOffset + 8 * static_cast<std::size_t>(driver_.multiprocessors()));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  CudaDriver::Address control = control_.device;
  auto products = static_cast<unsigned>(load.product_sms);
  unsigned adds = load.adds ? kernel.kernel.adds : 0;
  unsigned reads = read_rounds(kernel.kernel, load);
  // Reads of the last round end within the memory.
  const std::uint64_t walked = region_bytes_ * static_cast<std::size_t>(driver_.multiprocessors()) -
                               static_cast<std::uint64_t>(kernel.kernel.read_bytes);
  auto window = static_cast<std::uint32_t>(std::min(std::bit_floor(walked), kMostWalked) - 1);
  std::uint64_t region = load.cached ? kCachedSteps * kernel.kernel.region_bytes : region_bytes_;
  std::uint64_t most = kMostChunks;
  std::array<void*, 10> parameters = {&control,    &products,  &adds,    &reads,  &window,
                                      &masks.kept, &masks.set, &memory_, &region, &most};
  driver_.launch(kernel.work, static_cast<unsigned>(blocks), kernel.kernel.threads, kernel.kernel.shared_bytes,
                 parameters.data());
  running_ = &kernel;
}

LoadWork CudaLoad::work() const {
  LoadWork work;
  if (running_ == nullptr) return work;
  const auto* chunks =
      reinterpret_cast<const volatile std::uint64_t*>(static_cast<const char*>(control_.host) + kChunksOffset);
  for (int block = 0; block < load_.product_sms + load_.stream_sms; ++block) {
    const auto done = static_cast<double>(chunks[block]);
    if (block < load_.product_sms) {
      work.operations += done * running_->kernel.product_operations;
      if (load_.adds) work.cache_bytes += done * running_->kernel.add_bytes;
      work.bytes += done * read_rounds(running_->kernel, load_) * running_->kernel.read_bytes;
    } else {
      (load_.cached ? work.cache_bytes : work.bytes) += done * running_->kernel.stream_bytes;
    }
  }
  return work;
}

void CudaLoad::stop() {
  if (running_ == nullptr) return;
  *static_cast<volatile std::uint32_t*>(control_.host) = 1;
  running_ = nullptr;
  driver_.synchronize();
}

}  // namespace lowgear::load
