#pragma once

#include <sys/types.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lowgear::agent {

/// A program that the agent starts.
struct ProgramStart {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  ///< in addition to this process' own
  std::string input;                               ///< its standard input: at most 4 KiB
};

/// A child of this process, in a session of its own, so that signals of a terminal do not reach it. It does not end
/// with this process.
class ChildProgram {
 public:
  /// `on_end` is called once, on the io_context's thread, when it has ended and all that it wrote is here; it may
  /// destroy this. Throws Error when it cannot be started.
  ChildProgram(boost::asio::io_context& io, const ProgramStart& start, std::function<void()> on_end);
  /// Kills it, with the programs of its process group, unless it has ended.
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// How it ended, as a shell reports it (128 + signal); empty while it runs.
  [[nodiscard]] std::optional<int> status();
  /// The newest part of its standard output and error.
  [[nodiscard]] const std::string& output() const { return output_; }
  void signal(int number) noexcept;
  /// Waits, without the io_context. Returns whether it has ended.
  bool wait_until(std::chrono::steady_clock::time_point deadline);

 private:
  void read_output();
  void wait_for_end();
  /// Reads the output that is available now.
  void drain() noexcept;
  void keep(const char* text, std::size_t bytes);

  std::function<void()> on_end_;
  pid_t pid_ = -1;
  std::optional<int> status_;
  std::string output_;
  std::array<char, 4096> buffer_{};
  boost::asio::posix::stream_descriptor reader_;
  boost::asio::posix::stream_descriptor process_;           ///< a pidfd
  std::shared_ptr<bool> lives_ = std::make_shared<bool>();  ///< for functions that are queued when this is destroyed
};

}  // namespace lowgear::agent
