#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/core/error.h"
#include "base/ipc/lease_messages.h"

namespace {

/// What was read is written and read back the same.
template <typename Message>
void check_round_trip(const lowgear::ipc::Frame& frame, Message (*decode)(std::span<const std::byte>)) {
  const std::vector<std::byte> again = lowgear::ipc::encode(decode(frame.payload));
  if (!std::equal(frame.payload.begin(), frame.payload.end(), again.begin() + lowgear::ipc::kFrameHeaderBytes,
                  again.end())) {
    std::abort();
  }
}

void read_frame(const lowgear::ipc::Frame& frame) {
  switch (frame.type) {
    case lowgear::ipc::FrameType::hello:
      return check_round_trip(frame, lowgear::ipc::decode_hello);
    case lowgear::ipc::FrameType::lease:
      return check_round_trip(frame, lowgear::ipc::decode_lease);
    case lowgear::ipc::FrameType::refused:
      return check_round_trip(frame, lowgear::ipc::decode_refused);
    case lowgear::ipc::FrameType::plan:
      return check_round_trip(frame, lowgear::ipc::decode_plan);
    case lowgear::ipc::FrameType::too_late:
      return check_round_trip(frame, lowgear::ipc::decode_too_late);
    case lowgear::ipc::FrameType::ended:
      return check_round_trip(frame, lowgear::ipc::decode_ended);
    case lowgear::ipc::FrameType::accepted:
    case lowgear::ipc::FrameType::release:
      return;
  }
  std::abort();
}

}  // namespace

/// The first byte says in pieces of what size the rest arrives.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] + std::size_t{1};
  std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  lowgear::ipc::FrameReader reader(1U << 16U);
  try {
    while (!rest.empty()) {
      const auto part = rest.first(std::min(piece, rest.size()));
      rest = rest.subspan(part.size());
      reader.append(part);
      while (const auto frame = reader.next()) read_frame(*frame);
    }
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
