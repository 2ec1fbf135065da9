#include "hardware/simgpu/guarded_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <system_error>

#include "base/core/error.h"

namespace lowgear::simgpu {
namespace {

/// More than any process opens.
constexpr std::size_t kMostMappings = 64;

struct sigaction previous_action = {};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): a handler's

/// Throws Error.
std::byte* map(std::size_t bytes, int flags, int file) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED) throw Error("cannot be mapped: " + std::generic_category().message(errno));
  return static_cast<std::byte*>(memory);
}

/// Whether the memory holds the first bytes of the file now.
bool read_whole(int file, std::byte* memory, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t count = ::pread(file, memory + done, bytes - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

void handle_as_before(int number, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(number);
  } else {
    ::sigaction(number, &previous_action, nullptr);  // the access is repeated, and ends the process
  }
}

}  // namespace

/// A mapping as the signal handler sees it. Slots are static, so that the handler can read them at any time.
struct GuardedMapping::Slot {
  std::atomic<bool> used{false};
  std::atomic<std::byte*> begin{nullptr};  ///< null: there is nothing to handle
  std::size_t bytes = 0;                   ///< changes only while `begin` is null
  std::atomic<std::byte*> spare{nullptr};  ///< null once it is taken
  std::atomic<bool> whole{true};

  static std::array<Slot, kMostMappings> all;
};

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::array<GuardedMapping::Slot, kMostMappings> GuardedMapping::Slot::all{};

void GuardedMapping::handle_bus_error(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const auto* const address = static_cast<const std::byte*>(info->si_addr);
  for (Slot& slot : Slot::all) {
    std::byte* const begin = slot.begin.load(std::memory_order_acquire);
    if (begin == nullptr || address < begin || address >= begin + slot.bytes) continue;
    slot.whole = false;
    std::byte* const spare = slot.spare.exchange(nullptr);
    if (spare == nullptr) return;  // another thread puts it there: the access is repeated until then
    const void* const now = ::mremap(spare, slot.bytes, slot.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, begin);
    errno = error;
    if (now != MAP_FAILED) return;
    slot.begin = nullptr;
  }
  handle_as_before(number, info, context);
}

void GuardedMapping::install_handler() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    struct sigaction action = {};
    action.sa_sigaction = handle_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &previous_action);
  });
}

GuardedMapping::GuardedMapping(int file, std::size_t bytes)
    : memory_(map(bytes, MAP_SHARED, file), Release{.bytes = bytes, .slot = nullptr}) {}

void GuardedMapping::guard(int file, const std::function<void(std::span<std::byte>)>& adapt) {
  install_handler();
  const std::size_t bytes = memory_.get_deleter().bytes;
  std::unique_ptr<std::byte, Release> held(map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1),
                                           Release{.bytes = bytes, .slot = nullptr});
  if (!read_whole(file, held.get(), bytes)) throw Error("it is cut off");
  adapt({held.get(), bytes});
  const auto slot = std::ranges::find_if(Slot::all, [](Slot& each) { return !each.used.exchange(true); });
  if (slot == Slot::all.end()) throw Error("this process has opened too many simulated machines");
  slot->bytes = bytes;
  slot->whole = true;
  slot->spare = held.release();
  slot->begin.store(memory_.get(), std::memory_order_release);
  memory_.get_deleter().slot = &*slot;
}

bool GuardedMapping::whole() const {
  const Slot* const slot = memory_.get_deleter().slot;
  return slot == nullptr || slot->whole;
}

void GuardedMapping::Release::operator()(std::byte* memory) const noexcept {
  if (slot != nullptr) {
    // What stands in for the file stays: threads that held a mutex in it when the file went refer to it for ever.
    std::byte* const spare = slot->spare.exchange(nullptr);
    if (spare == nullptr) return;
    slot->begin = nullptr;
    ::munmap(spare, bytes);
  }
  ::munmap(memory, bytes);
  if (slot != nullptr) slot->used = false;
}

}  // namespace lowgear::simgpu
