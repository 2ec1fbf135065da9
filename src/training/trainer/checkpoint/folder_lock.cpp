#include "training/trainer/checkpoint/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "base/core/error.h"
#include "base/ipc/held_file.h"

namespace lowgear::trainer {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, std::string_view what, std::string_view fix) {
  throw_input_error({path.string(), 0, 0}, what, fix);
}

[[noreturn]] void fail_to_write(const fs::path& path, int error_number) {
  fail(path, fmt::format("cannot be written: {}", std::generic_category().message(error_number)),
       "name another folder for checkpoints");
}

/// ` (process 123 on node-4)`, as the holder has written it; empty when it has not done so yet.
std::string in_parentheses(std::string_view holder) {
  constexpr std::size_t kMost = 200;
  return holder.empty() ? "" : fmt::format(" ({})", printable(holder, kMost));
}

std::string this_process() {
  std::array<char, 65> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return fmt::format("process {}", ::getpid());
  return fmt::format("process {} on {}", ::getpid(), host.data());
}

/// That of another user may often be read only, which is enough to lock it.
FileDescriptor open_lock(const fs::path& path) {
  constexpr int kMode = 0666;
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  const int error_number = errno;
  if (!file && error_number == EACCES) file = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail_to_write(path, error_number);
  return file;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) : file_(open_lock(folder / "lock")) {
  const ipc::FileHold hold = ipc::hold_file(file_, this_process());
  if (hold.outcome != ipc::FileHold::Outcome::taken) return;
  fail(folder, fmt::format("another training{} writes checkpoints here", in_parentheses(hold.holder)),
       "wait for it to end, or name another folder for checkpoints");
}

}  // namespace lowgear::trainer
