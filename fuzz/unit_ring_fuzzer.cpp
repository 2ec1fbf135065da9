#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/ipc/unit_ring.h"

/// A client writes what it likes into the memory that the agent reads: each 9 bytes of input set one 8-byte word of the
/// ring, chosen by the first of them, and the agent reads in between.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto ring = std::make_unique<lowgear::ipc::UnitRing>();
  lowgear::ipc::UnitRingReader reader(*ring);
  std::vector<lowgear::ipc::UnitEvent> buffer(lowgear::ipc::kUnitRingCapacity);
  for (; size >= 9; data += 9, size -= 9) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + 1, sizeof word);
    if (data[0] % 2 == 0) {
      ring->written = word;
    } else {
      ring->slots[data[0] % lowgear::ipc::kUnitRingCapacity].unit = word;
    }
    const auto limit = std::min<std::size_t>(buffer.size(), data[0] + std::size_t{1});
    const auto batch = reader.read(std::span(buffer).first(limit));
    if (batch.events > limit) std::abort();
  }
  return 0;
}
