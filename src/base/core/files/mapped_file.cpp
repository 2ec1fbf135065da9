#include "base/core/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_kind.h"

namespace lowgear {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view why, std::string_view fix = {}) {
  throw_input_error({path.string(), 0, 0}, fmt::format("cannot be read: {}", why), fix);
}

std::string system_reason(int error_number) { return std::generic_category().message(error_number); }

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer. It means nothing to a regular file.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    const int why = errno;
    fail(path, system_reason(why), why == ENOENT ? "check the path" : "");
  }
  struct stat status = {};
  int error_number = ::fstat(file, &status) == 0 ? 0 : errno;
  const bool regular = error_number == 0 && S_ISREG(status.st_mode);
  if (regular && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) {
      error_number = errno;
    } else {
      data_ = data;
    }
  }
  ::close(file);
  if (error_number != 0) fail(path, system_reason(error_number));
  if (!regular) fail(path, "it is not a regular file", "name a file");
  try {
    refuse_git_lfs_pointer(path, text());
  } catch (...) {
    unmap();
    throw;
  }
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace lowgear
