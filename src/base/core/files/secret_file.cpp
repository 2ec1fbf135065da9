#include "base/core/files/secret_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/trusted_path.h"

namespace lowgear {

std::string read_secret_file(const std::filesystem::path& file, std::size_t max_bytes) {
  const std::filesystem::path absolute = require_trusted(file);
  struct stat status {};
  if (::stat(absolute.c_str(), &status) != 0 || (status.st_mode & 077U) != 0) {
    const std::string name = printable(file.string());
    throw InputError(fmt::format("{}: others may read it, and it holds a secret; chmod 600 {}", name, name));
  }
  return read_file(absolute, max_bytes);
}

}  // namespace lowgear
