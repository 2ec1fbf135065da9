#include "base/core/files/file_descriptor.h"

#include <unistd.h>

#include <cerrno>

namespace lowgear {

int write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(descriptor, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace lowgear
