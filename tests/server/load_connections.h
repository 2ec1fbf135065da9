#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/files/file_descriptor.h"

namespace lowgear::server {

/// A copy of this process that is killed with it; 0 in the copy, its id here. Throws Error.
[[nodiscard]] pid_t fork_with_parent();

/// `lowgear serve` as a child process on a state folder of its own, on a Unix socket and a loopback port.
class Process {
 public:
  /// `folder` is made; its path is to be short, as sockets demand.
  Process(std::filesystem::path binary, std::filesystem::path folder);
  /// Kills it.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Starts it, and does not wait.
  void launch();
  /// Waits until it serves. Throws Error when it ends instead, or takes longer than 30 s.
  void await_start();
  /// SIGKILL.
  void kill();
  /// SIGTERM; throws Error unless it then ends in good order.
  void stop();

  [[nodiscard]] std::filesystem::path state_folder() const { return folder_ / "state"; }
  [[nodiscard]] std::filesystem::path socket() const { return folder_ / "s"; }
  [[nodiscard]] std::uint16_t port() const { return port_; }  ///< once it serves
  /// May everything over TCP.
  [[nodiscard]] static std::string_view token();
  [[nodiscard]] double peak_memory_mb() const;  ///< resident, 10^6 bytes
  [[nodiscard]] double cpu_time_s() const;      ///< user and system, all threads

 private:
  int wait();

  std::filesystem::path binary_;
  std::filesystem::path folder_;
  pid_t process_ = -1;
  FileDescriptor output_;
  std::uint16_t port_ = 0;
};

struct LoadAnswer {
  int status = 0;  ///< 0: the connection ended, or nothing listens; it connects again with the next request
  std::string_view body;
};

/// Thousands of connections to a server, each with one request at a time under way, in one thread.
class LoadConnections {
 public:
  using Clock = std::chrono::steady_clock;
  using Answered = std::function<void(std::size_t connection, const LoadAnswer& answer)>;

  /// Over the Unix socket when `port` is 0.
  LoadConnections(std::filesystem::path socket, std::uint16_t port);

  /// Adds so many; returns the number of the first. They connect with their first request.
  std::size_t add(std::size_t count);
  /// Sends a request; its answer comes out of `receive`. `rank_key` may be empty.
  void send(std::size_t connection, std::string_view method, std::string_view target, std::string_view body = {},
            std::string_view rank_key = {});
  /// Waits that long at most for input, and hands out what has come. `answered` may send.
  void receive(Clock::duration patience, const Answered& answered);
  [[nodiscard]] bool busy(std::size_t connection) const { return connections_[connection].busy; }
  /// Sends and waits for the answer while the others wait. Throws Error when there is none within 30 s.
  struct Whole {
    int status = 0;
    std::string body;
  };
  [[nodiscard]] Whole ask(std::size_t connection, std::string_view method, std::string_view target,
                          std::string_view body = {}, std::string_view rank_key = {});
  /// Server-sent events that have come so far, over all connections that stream.
  [[nodiscard]] std::size_t events() const { return events_; }

 private:
  struct Connection {
    FileDescriptor socket;
    std::string input;
    std::string output;  ///< what the socket did not take
    bool busy = false;
    bool streams = false;
  };

  [[nodiscard]] FileDescriptor connect() const;
  void watch(std::size_t connection, bool for_room, bool is_new);
  void flush(std::size_t connection);
  void read(std::size_t connection, const Answered& answered);
  void lose(std::size_t connection, const Answered& answered);

  std::filesystem::path socket_;
  std::uint16_t port_;
  FileDescriptor poll_;
  std::vector<Connection> connections_;
  std::vector<std::size_t> unconnected_;  ///< that tried in vain, to be told of with the next `receive`
  std::vector<char> buffer_;
  std::size_t events_ = 0;
};

/// The text or number of a member that occurs once in a JSON text; empty when it is not there. For answers that are too
/// many to parse.
[[nodiscard]] std::string_view member_text(std::string_view json, std::string_view name);
[[nodiscard]] std::int64_t member_integer(std::string_view json, std::string_view name);

}  // namespace lowgear::server
