#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace lowgear {

/// The bytes of a file in memory, for reading: only accessed pages are read, and processes of one machine share them.
/// The file must not be shortened while it is mapped: that kills the process with SIGBUS; replacing it by renaming is
/// safe.
class MappedFile {
 public:
  /// Throws InputError with the path and the system's reason when the file is missing, unreadable or no regular file,
  /// or a pointer of Git LFS.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  [[nodiscard]] std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void unmap() noexcept;

  void* data_ = nullptr;  ///< null: the file is empty
  std::size_t size_ = 0;
};

}  // namespace lowgear
