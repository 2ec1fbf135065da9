#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lowgear::client {

/// Makes a GPU write numbers in the order of its work.
class StreamDriver {
 public:
  /// CUDA's CUstream.
  using Stream = void*;
  /// Of `write`; others are the driver's.
  static constexpr int kWritten = 0;
  static constexpr int kCaptured = -1;  ///< the stream's work is being captured in a graph, to run later and repeatedly

  virtual ~StreamDriver() = default;
  /// The number that the GPU writes and this process reads; 0 at first. Lasts as long as the process: a GPU may be
  /// late.
  [[nodiscard]] virtual std::span<const std::atomic<std::uint32_t>> words() const = 0;
  /// Once the GPU has come that far on the stream, this word is to be the number. Does not wait for it.
  [[nodiscard]] virtual int write(Stream stream, std::size_t word, std::uint32_t number) noexcept = 0;
  /// The meaning of a failure of `write`, for a person.
  [[nodiscard]] virtual std::string describe(int failure) const = 0;
};

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

/// NVIDIA's driver, by the library that the process has (or would have) loaded: `file`, in general libcuda.so.1. Uses
/// the calling thread's context. Where the driver writes no numbers in streams (NVreg_EnableStreamMemOPs is off, or it
/// is older than CUDA 11.7) four bytes are filled with them instead. Throws Error when there is no such library, it
/// lacks a needed function, or the thread has no context.
[[nodiscard]] std::unique_ptr<StreamDriver> open_cuda_stream_driver(const std::string& file);

}  // namespace lowgear::client
