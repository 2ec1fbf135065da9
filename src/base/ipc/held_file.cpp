#include "base/ipc/held_file.h"

#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <tuple>

namespace lowgear::ipc {
namespace {

/// The longest path and some words.
constexpr std::size_t kMaxHolderBytes = 8192;

std::string read_holder(const FileDescriptor& file) {
  std::array<char, kMaxHolderBytes> text{};
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  return {text.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

}  // namespace

FileHold hold_file(const FileDescriptor& file, std::string_view holder) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return {.outcome = FileHold::Outcome::unsupported, .holder = {}};
    return {.outcome = FileHold::Outcome::taken, .holder = read_holder(file)};
  }
  const bool written = ::ftruncate(file.get(), 0) == 0 &&
                       ::pwrite(file.get(), holder.data(), holder.size(), 0) == static_cast<ssize_t>(holder.size());
  if (!written) std::ignore = ::ftruncate(file.get(), 0);  // half of it would name the wrong process
  return {.outcome = FileHold::Outcome::held, .holder = {}};
}

}  // namespace lowgear::ipc
