#include "base/http/server/tcp_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/core/error.h"

namespace lowgear::http {
namespace {

struct TcpAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

std::optional<TcpAddress> numeric_address(const std::string& text, std::uint16_t port) {
  TcpAddress address;
  auto& four = reinterpret_cast<sockaddr_in&>(address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    address.size = sizeof(sockaddr_in);
    return address;
  }
  auto& six = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    address.size = sizeof(sockaddr_in6);
    return address;
  }
  return std::nullopt;
}

std::uint16_t port_of(const sockaddr_storage& storage) {
  return ntohs(storage.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(storage).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
}

[[noreturn]] void throw_listen_error(const std::string& address, std::uint16_t port) {
  const int error = errno;
  const std::string host = address.find(':') == std::string::npos ? address : "[" + address + "]";
  throw InputError(host + ":" + std::to_string(port) +
                   ": cannot listen there: " + std::generic_category().message(error) +
                   (error == EADDRNOTAVAIL ? "; configure an address of this machine" : "; configure another port"));
}

/// Inherited by the connections that are accepted. A machine that has crashed sends nothing, and a waiting request has
/// no deadline: only the kernel's probes detect it.
void set_up_connections(const FileDescriptor& socket) {
  constexpr int kEnabled = 1;
  constexpr int kIdleS = 30;
  constexpr int kIntervalS = 10;
  constexpr int kProbes = 3;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &kEnabled, sizeof(kEnabled));
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &kIdleS, sizeof(kIdleS));
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalS, sizeof(kIntervalS));
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &kEnabled, sizeof(kEnabled));
}

}  // namespace

TcpListener listen_tcp(const std::string& address, std::uint16_t port) {
  const std::optional<TcpAddress> where = numeric_address(address, port);
  if (!where) throw InputError(quote(address) + " is not an address to listen on; write one as 127.0.0.1 or ::1");
  TcpListener listener;
  listener.socket = FileDescriptor(::socket(where->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket) throw_listen_error(address, port);
  const int enabled = 1;
  ::setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &enabled, sizeof(enabled));
  set_up_connections(listener.socket);
  if (::bind(listener.socket.get(), reinterpret_cast<const sockaddr*>(&where->storage), where->size) != 0 ||
      ::listen(listener.socket.get(), SOMAXCONN) != 0) {
    throw_listen_error(address, port);
  }
  sockaddr_storage taken{};
  socklen_t size = sizeof(taken);
  if (::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&taken), &size) != 0) {
    throw_listen_error(address, port);
  }
  listener.port = port_of(taken);
  return listener;
}

}  // namespace lowgear::http
