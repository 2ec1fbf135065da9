#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace lowgear {

/// The bytes of a file in memory, for reading: only what is touched is read, and processes of one machine share its
/// pages. The file must not be shortened meanwhile, which ends the process with SIGBUS; replacing it by renaming is
/// harmless.
class MappedFile {
 public:
  /// Throws InputError with the path and the system's reason when the file is missing, unreadable or no regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;  ///< null when the file is empty, of which nothing can be mapped
  std::size_t size_ = 0;
};

}  // namespace lowgear
