#pragma once

#include <unistd.h>

#include <string_view>
#include <utility>

namespace lowgear {

/// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Takes over what a system call returned; negative: none.
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      descriptor_ = other.release();
    }
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] explicit operator bool() const { return descriptor_ >= 0; }
  /// Gives it away.
  [[nodiscard]] int release() { return std::exchange(descriptor_, -1); }
  void reset() noexcept {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_ = -1;
};

/// Writes all of it to a file descriptor, however many calls that takes. Returns errno, 0 when all is written.
[[nodiscard]] int write_all(int descriptor, std::string_view content);

}  // namespace lowgear
