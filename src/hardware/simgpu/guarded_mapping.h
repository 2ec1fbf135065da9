#pragma once

#include <csignal>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace lowgear::simgpu {

/// A mapped file that other processes may write to and cut off. An access beyond the cut raises SIGBUS: the handler
/// replaces the whole mapping by private memory with the content that the file had when it was guarded, and the access
/// succeeds. SIGBUS for other reasons is handled as before.
class GuardedMapping {
 public:
  /// Maps the begin of the file, unguarded. Throws Error.
  GuardedMapping(int file, std::size_t bytes);

  [[nodiscard]] std::byte* memory() const { return memory_.get(); }
  /// Guards the mapping from now on. `adapt` receives a copy of the file's content and turns it into the replacement.
  /// Throws Error, also when the file has been cut off already.
  void guard(int file, const std::function<void(std::span<std::byte>)>& adapt);
  /// False once the file was found cut off: the memory is then private to this process.
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
