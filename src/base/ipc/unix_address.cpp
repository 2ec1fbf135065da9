#include "base/ipc/unix_address.h"

#include <algorithm>
#include <string>

#include "base/core/error.h"

namespace lowgear::ipc {
namespace {

void require_length(std::string_view name) {
  if (!name.empty() && name.size() <= kMaxUnixPathBytes) return;
  throw InputError(printable(name) + ": a path of " + std::to_string(name.size()) +
                   " bytes is none for a socket; give one of 1 to " + std::to_string(kMaxUnixPathBytes));
}

}  // namespace

UnixAddress::UnixAddress(std::string_view bytes, std::size_t offset)
    : size_(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + offset + bytes.size())) {
  address_.sun_family = AF_UNIX;
  std::ranges::copy(bytes, address_.sun_path + offset);
}

UnixAddress UnixAddress::of_path(const std::filesystem::path& path) {
  const std::string& text = path.native();
  require_length(text);
  // It would end the path, or at its begin make the socket an abstract one.
  if (text.find('\0') != std::string::npos) {
    throw InputError(printable(text) + ": a path with a zero byte is none for a socket; leave it out");
  }
  return {std::string_view(text.c_str(), text.size() + 1), 0};
}

UnixAddress UnixAddress::of_abstract_name(std::string_view name) {
  require_length(name);
  return {name, 1};  // after a zero byte, which distinguishes it from a path
}

const sockaddr* UnixAddress::get() const { return reinterpret_cast<const sockaddr*>(&address_); }

}  // namespace lowgear::ipc
