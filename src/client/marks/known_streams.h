#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "client/marks/stream_driver.h"

namespace lowgear::client {

/// The streams that marks have followed, numbered in the order in which they were first named, and the one in use. Does
/// not allocate.
class KnownStreams {
 public:
  static constexpr std::size_t kCapacity = 256;

  /// False when it is not known and there are `most` already: the one in use then stays.
  [[nodiscard]] bool use(StreamDriver::Stream stream, std::size_t most) noexcept {
    const auto end = streams_.begin() + static_cast<std::ptrdiff_t>(count_);
    const auto known = std::find(streams_.begin(), end, stream);
    if (known == end) {
      if (count_ == std::min(most, kCapacity)) return false;
      streams_[count_++] = stream;
    }
    number_ = static_cast<std::size_t>(known - streams_.begin());
    return true;
  }
  [[nodiscard]] StreamDriver::Stream stream() const noexcept { return streams_[number_]; }
  [[nodiscard]] std::size_t number() const noexcept { return number_; }

 private:
  std::array<StreamDriver::Stream, kCapacity> streams_{};
  std::size_t count_ = 0;
  std::size_t number_ = 0;  ///< of the stream in use
};

}  // namespace lowgear::client
