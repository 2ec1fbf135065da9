#include "agent/lease/control_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::agent {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20U;

[[noreturn]] void throw_socket_error(const std::filesystem::path& socket, const std::string& what) {
  throw Error(socket.string() + ": cannot be asked: " + what);
}

std::string system_reason() { return std::generic_category().message(errno); }

/// A connection to the socket; none when no process listens.
FileDescriptor connect_to(const std::filesystem::path& path) {
  const ipc::UnixAddress address = ipc::UnixAddress::of_path(path);
  FileDescriptor connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!connection) throw_socket_error(path, system_reason());
  if (::connect(connection.get(), address.get(), address.size()) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) return {};
    throw_socket_error(path, system_reason());
  }
  return connection;
}

void send_all(const FileDescriptor& connection, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t sent = ::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) throw_socket_error(path, system_reason());
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string receive_all(const FileDescriptor& connection, Clock::time_point deadline,
                        const std::filesystem::path& path) {
  std::string answer;
  std::array<char, std::size_t{16} * 1024> buffer{};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd readable{.fd = connection.get(), .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) == 0) {
      throw_socket_error(path, "it does not answer");
    }
    const ssize_t received = ::recv(connection.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (received < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (received < 0) throw_socket_error(path, system_reason());
    if (received == 0) return answer;
    answer.append(buffer.data(), static_cast<std::size_t>(received));
    if (answer.size() > kMaxAnswerBytes) throw_socket_error(path, "its answer does not end");
  }
}

/// The answer to a request of HTTP/1.0, which ends where the connection does.
ControlAnswer parse_answer(const std::string& text, const std::filesystem::path& path) {
  constexpr std::string_view kProtocol = "HTTP/1.";
  constexpr std::size_t kStatusAt = 9;  // of `HTTP/1.0 200 OK`
  constexpr std::size_t kStatusDigits = 3;
  constexpr std::string_view kEndOfHeaders = "\r\n\r\n";
  const std::size_t body = text.find(kEndOfHeaders);
  ControlAnswer answer;
  if (!text.starts_with(kProtocol) || body == std::string::npos) throw_socket_error(path, "its answer is not HTTP");
  const char* status = text.data() + kStatusAt;
  const auto [end, error] = std::from_chars(status, status + kStatusDigits, answer.status);
  if (error != std::errc() || end != status + kStatusDigits) throw_socket_error(path, "its answer is not HTTP");
  answer.body = text.substr(body + kEndOfHeaders.size());
  return answer;
}

}  // namespace

std::optional<ControlAnswer> ask_agent(const std::filesystem::path& socket, std::string_view method,
                                       std::string_view path, std::string_view body) {
  constexpr std::chrono::seconds kTimeout{30};
  const FileDescriptor connection = connect_to(socket);
  if (!connection) return std::nullopt;
  std::string request(method);
  request += " ";
  request += path;
  request += " HTTP/1.0\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size());
  if (!body.empty()) request += "\r\nContent-Type: application/json";
  request += "\r\n\r\n";
  request += body;
  send_all(connection, request, socket);
  return parse_answer(receive_all(connection, Clock::now() + kTimeout, socket), socket);
}

}  // namespace lowgear::agent
