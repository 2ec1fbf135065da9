#include "trainer/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "core/error.h"

namespace lowgear {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, std::string_view what, std::string_view fix) {
  throw_input_error({path.string(), 0, 0}, what, fix);
}

[[noreturn]] void fail_to_write(const fs::path& path) {
  fail(path, fmt::format("cannot be written: {}", std::generic_category().message(errno)),
       "name another folder for checkpoints");
}

/// ` (process 123 on node-4)`, as the holder has written it; empty when it has not done so yet.
std::string holder_of(const FileDescriptor& file) {
  std::array<char, 200> text{};
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  if (size <= 0) return "";
  return fmt::format(" ({})", printable(std::string_view(text.data(), static_cast<std::size_t>(size)), text.size()));
}

std::string this_process() {
  std::array<char, 65> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return fmt::format("process {}", ::getpid());
  return fmt::format("process {} on {}", ::getpid(), host.data());
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) {
  constexpr int kMode = 0666;
  const fs::path path = folder / "lock";
  file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (!file_) fail_to_write(path);
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return;
    fail(folder, fmt::format("another training{} writes checkpoints here", holder_of(file_)),
         "wait for it to end, or name another folder for checkpoints");
  }
  const std::string holder = this_process();
  if (::ftruncate(file_.get(), 0) != 0) fail_to_write(path);
  if (::pwrite(file_.get(), holder.data(), holder.size(), 0) < 0) fail_to_write(path);
}

}  // namespace lowgear
