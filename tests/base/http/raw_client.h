#pragma once

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/eventually.h"
#include "base/core/files/file_descriptor.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::http {

/// A blocking client that sends and receives bytes as the test says, and gives up after kPatience.
class RawClient {
 public:
  explicit RawClient(const std::filesystem::path& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    connect_to(path);
  }
  explicit RawClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    be_patient();
  }
  /// Not connected yet.
  RawClient() : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}

  void connect_to(const std::filesystem::path& path) {
    const ipc::UnixAddress address = ipc::UnixAddress::of_path(path);
    connected_ = ::connect(socket_.get(), address.get(), address.size()) == 0;
    be_patient();
  }

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int descriptor() const { return socket_.get(); }

  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void get(std::string_view target) const { send(fmt::format("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", target)); }
  /// Ends this side of the connection.
  void finish() const { ::shutdown(socket_.get(), SHUT_WR); }

  /// Reads until the text holds `end`; what came, when the connection ends before.
  std::string read_until(std::string_view end) {
    std::size_t found = input_.find(end);
    while (found == std::string::npos) {
      const std::size_t searched = input_.size() - std::min(input_.size(), end.size());
      if (!receive()) return std::exchange(input_, {});
      found = input_.find(end, searched);
    }
    const std::size_t size = found + end.size();
    std::string text = input_.substr(0, size);
    input_.erase(0, size);
    return text;
  }
  /// Headers and body of one response.
  std::string read_response() {
    std::string text = read_until("\r\n\r\n");
    const std::size_t length = text.find("Content-Length: ");
    if (length == std::string::npos) return text;
    const auto size = static_cast<std::size_t>(std::stoul(text.substr(length + 16)));
    while (input_.size() < size && receive()) {
    }
    text += input_.substr(0, size);
    input_.erase(0, std::min(size, input_.size()));
    return text;
  }
  /// Whether the server ends the connection.
  bool ended() {
    while (receive()) {
    }
    return !timed_out_;
  }

 private:
  void be_patient() const {
    const timeval timeout{.tv_sec = std::chrono::seconds(kPatience).count(), .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  }
  bool receive() {
    char buffer[4096];
    const ssize_t received = ::recv(socket_.get(), buffer, sizeof(buffer), 0);
    timed_out_ = received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (received <= 0) return false;
    input_.append(buffer, static_cast<std::size_t>(received));
    return true;
  }

  FileDescriptor socket_;
  bool connected_ = false;
  bool timed_out_ = false;
  std::string input_;
};

/// So many clients that have each begun a stream of this target.
inline std::vector<std::unique_ptr<RawClient>> held_streams(const std::filesystem::path& path, std::string_view target,
                                                            int count) {
  std::vector<std::unique_ptr<RawClient>> held;
  for (int i = 0; i < count; ++i) {
    held.push_back(std::make_unique<RawClient>(path));
    held.back()->get(target);
    held.back()->read_until("\r\n\r\n");
  }
  return held;
}

}  // namespace lowgear::http
