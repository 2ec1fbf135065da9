#include "server/store/secret.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include "base/core/error.h"

namespace lowgear::server {

std::string new_secret() {
  std::array<unsigned char, 16> bytes{};
  // So few bytes come whole or, before the kernel has gathered enough at boot, after a while.
  ssize_t size = -1;
  do {
    size = ::getrandom(bytes.data(), bytes.size(), 0);
  } while (size < 0 && errno == EINTR);
  if (size != static_cast<ssize_t>(bytes.size())) {
    throw Error(fmt::format("no random bits: {}", std::generic_category().message(errno)));
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

bool same_secret(std::string_view given, std::string_view expected) {
  // Volatile, so that the compiler cannot leave the loop early. An empty secret matches nothing.
  volatile unsigned char difference = given.size() == expected.size() && !expected.empty() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = expected.empty() ? '\0' : expected[i % expected.size()];
    difference = static_cast<unsigned char>(difference | static_cast<unsigned char>(given[i] ^ other));
  }
  return difference == 0;
}

}  // namespace lowgear::server
