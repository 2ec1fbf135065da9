#include "training/trainer/checkpoint/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/ipc/held_file.h"

namespace lowgear::trainer {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestFailure = 1000;
constexpr std::string_view kSuffix = ".lowgear-tmp";
/// Kinds of failures: InputError and others.
constexpr char kUsers = 'u';
constexpr char kSystems = 's';

/// Error that an action throws, as a letter for its kind and its text; empty if it does not throw. The loss of another
/// rank is thrown on: ranks can no longer meet.
std::string failure_of(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const PeerLost&) {
    throw;
  } catch (const InputError& error) {
    return fmt::format("{}{}", kUsers, error.what());
  } catch (const std::exception& error) {
    return fmt::format("{}{}", kSystems, error.what());
  }
}

/// The text that rank `rank` has, at most kLongestFailure of it.
std::string text_from(Collective& world, int rank, const std::string& text) {
  const at::Tensor bytes = at::zeros({kLongestFailure}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), std::min(text.size(), static_cast<std::size_t>(kLongestFailure)));
  world.broadcast(bytes, rank);
  const std::string padded(static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(kLongestFailure));
  return padded.substr(0, padded.find('\0'));
}

void require_done(const fs::path& path, const std::error_code& error) {
  if (error) throw Error(fmt::format("{}: cannot be written: {}", path.string(), error.message()));
}

/// Where it leads, with links followed and without a trailing slash, which leaves no name.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(fs::absolute(path, error), error);
  require_done(path, error);
  return target.has_filename() ? target : target.parent_path();
}

/// The target of a temporary.
fs::path target_of(const fs::path& temporary) {
  const std::string name = temporary.filename().string();
  return temporary.parent_path() / name.substr(1, name.size() - 1 - kSuffix.size());
}

std::error_code make_empty(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) fs::create_directories(folder, error);
  return error;
}

/// In one step where the file system can, also when there is a folder at the target: that one then has the temporary's
/// place, and is removed.
void move_to(const fs::path& from, const fs::path& target) {
  std::error_code error;
  if (!fs::exists(target, error)) {
    fs::rename(from, target, error);
    require_done(target, error);
  } else {
    exchange_directories(from, target);
    fs::remove_all(from, error);
  }
  flush_directory(target.parent_path());
}

/// The output is complete: the user can move it to its place.
void move_complete(const fs::path& from, const JobFolder& folder, const fs::path& target) {
  try {
    if (folder.require_replaceable) folder.require_replaceable();
    move_to(from, target);
  } catch (const Error& error) {
    const std::string message = fmt::format("{}; it is complete in {}", error.what(), from.string());
    if (dynamic_cast<const InputError*>(&error) != nullptr) throw InputError(message);
    throw Error(message);
  }
}

}  // namespace

void together(Collective& world, const std::function<void()>& action) {
  const std::string failure = failure_of(action);
  // There is a largest, but no smallest.
  const at::Tensor place = at::full({1}, failure.empty() ? 0 : world.size() - world.rank(), at::kLong);
  world.all_reduce(place, Reduction::maximum);
  const auto found = place.item<std::int64_t>();
  if (found == 0) return;
  const auto rank = static_cast<int>(world.size() - found);
  const std::string first = text_from(world, rank, failure);
  const std::string message = fmt::format("rank {}: {}", rank, first.substr(1));
  if (first.front() == kUsers) throw InputError(message);
  throw Error(message);
}

fs::path temporary_of(const fs::path& target) {
  return target.parent_path() / fmt::format(".{}{}", target.filename().string(), kSuffix);
}

bool is_temporary(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') && name.ends_with(kSuffix);
}

void clean_up_targets(const fs::path& folder) {
  std::error_code error;
  const std::vector<fs::path> entries{fs::directory_iterator(folder, error), {}};
  for (const fs::path& path : entries) {
    const fs::path temporary = path.parent_path() / path.stem();
    if (is_set_aside(path) && is_temporary(temporary)) settle_exchange(temporary, target_of(temporary));
  }
  for (const fs::path& path : entries) {
    if (is_temporary(path)) fs::remove_all(path, error);
  }
}

void write_together(Collective& world, const JobFolder& folder) {
  const fs::path target = resolved(folder.target);
  const fs::path temporary = temporary_of(target);
  const auto on_first = [&world](const std::function<void()>& action) {
    together(
        world, world.rank() == 0 ? action : [] {});
  };
  bool is_complete = false;
  try {
    on_first([&] {
      settle_exchange(temporary, target);
      require_done(temporary, make_empty(temporary));
    });
    together(world, [&] { folder.write(temporary); });
    on_first([&] {
      folder.finish(temporary);
      flush_directory(temporary);
      is_complete = true;
      move_complete(temporary, folder, target);
    });
  } catch (...) {
    std::error_code ignored;
    if (world.rank() == 0 && !is_complete) fs::remove_all(temporary, ignored);
    throw;
  }
}

void prepare_target(const fs::path& target) {
  const fs::path path = resolved(target);
  const fs::path temporary = temporary_of(path);
  settle_exchange(temporary, path);
  if (const std::error_code error = make_empty(temporary)) {
    throw_input_error({path.string(), 0, 0}, fmt::format("cannot be written: {}", error.message()),
                      "name another folder");
  }
  std::error_code ignored;
  fs::remove(temporary, ignored);
}

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
