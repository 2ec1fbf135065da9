#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/core/files/file_descriptor.h"

namespace lowgear::simgpu {

/// The socket `control` in a pipe directory, through which the stand-in for NVIDIA's MPS control daemon is asked: one
/// line is one command.
class ControlSocket {
 public:
  /// Listens. Throws InputError when the folder cannot be written to, or another daemon listens there.
  explicit ControlSocket(const std::filesystem::path& pipe_directory);
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  /// Passes each command to `respond` and returns its responses, until `over` is set, which is looked at some 20 times
  /// a second.
  void serve(const std::function<std::string(std::string_view command)>& respond, const std::atomic<bool>& over);

 private:
  std::filesystem::path path_;
  FileDescriptor socket_;
};

/// The response to one command. Throws Error when no daemon listens in this directory.
[[nodiscard]] std::string ask_control_socket(const std::filesystem::path& pipe_directory, std::string_view command);

}  // namespace lowgear::simgpu
