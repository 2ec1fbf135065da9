#pragma once

#include <csignal>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace lowgear::simgpu {

/// A file that this process maps, and that others, who may write to it, may cut off. An access to what is gone raises
/// SIGBUS: its handler puts memory of this process' own in the place of the whole file, with what the file held when it
/// was guarded, and the access succeeds. SIGBUS for other reasons is handled as before.
class GuardedMapping {
 public:
  /// Maps the begin of the file, unguarded. Throws Error.
  GuardedMapping(int file, std::size_t bytes);

  [[nodiscard]] std::byte* memory() const { return memory_.get(); }
  /// Guards it from now on. `adapt` receives what the file holds, and makes of it what would stand in for the file.
  /// Throws Error, also when the file has been cut off already.
  void guard(int file, const std::function<void(std::span<std::byte>)>& adapt);
  /// False once the file was found cut off: what is in memory is then this process' own.
  [[nodiscard]] bool whole() const;

 private:
  struct Slot;
  struct Release {
    std::size_t bytes = 0;
    Slot* slot = nullptr;  ///< null: not guarded
    void operator()(std::byte* memory) const noexcept;
  };
  static void handle_bus_error(int number, siginfo_t* info, void* context);
  static void install_handler();

  std::unique_ptr<std::byte, Release> memory_;
};

}  // namespace lowgear::simgpu
