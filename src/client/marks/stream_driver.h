#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lowgear::client {

/// What has a GPU write numbers in the order of its work.
class StreamDriver {
 public:
  /// CUDA's CUstream.
  using Stream = void*;
  /// Of `write`; others are the driver's.
  static constexpr int kWritten = 0;
  static constexpr int kCaptured = -1;  ///< the stream's work is being captured in a graph, to run later and repeatedly

  virtual ~StreamDriver() = default;
  /// What the GPU writes and this process reads; 0 at first. Lasts as long as the process: a GPU may be late.
  [[nodiscard]] virtual std::span<const std::atomic<std::uint32_t>> words() const = 0;
  /// Once the GPU has come that far on the stream, this word is to be the number. Does not wait for it.
  [[nodiscard]] virtual int write(Stream stream, std::size_t word, std::uint32_t number) noexcept = 0;
  /// What a failure of `write` means, for a person.
  [[nodiscard]] virtual std::string describe(int failure) const = 0;
};

}  // namespace lowgear::client
