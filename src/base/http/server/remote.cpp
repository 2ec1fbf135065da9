#include "base/http/server/remote.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/ipc/unix_peer.h"

namespace lowgear::http {
namespace {

std::string text_of(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const char* const written = ::inet_ntop(family, address, text.data(), text.size());
  return written == nullptr ? std::string() : std::string(written);
}

Remote remote_of(const in_addr& address) {
  constexpr std::uint32_t kLoopbackNetwork = 127;
  Remote remote;
  remote.address = text_of(AF_INET, &address);
  const bool loopback = ntohl(address.s_addr) >> 24U == kLoopbackNetwork;
  remote.client = loopback ? "127.0.0.0/8" : remote.address;
  return remote;
}

Remote remote_of(const in6_addr& address) {
  constexpr std::size_t kNetworkBytes = 8;
  constexpr std::size_t kMappedAt = 12;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    in_addr mapped{};
    std::memcpy(&mapped, address.s6_addr + kMappedAt, sizeof(mapped));
    return remote_of(mapped);
  }
  Remote remote;
  remote.address = text_of(AF_INET6, &address);
  in6_addr network = address;
  std::fill(network.s6_addr + kNetworkBytes, std::end(network.s6_addr), std::uint8_t{0});
  remote.client = text_of(AF_INET6, &network) + "/64";
  return remote;
}

Remote remote_of(const ipc::UnixPeer& peer) {
  Remote remote;
  remote.peer = peer;
  remote.address = "unix";
  remote.client = "user " + std::to_string(peer.uid);
  return remote;
}

}  // namespace

std::optional<Remote> remote_of(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  switch (storage.ss_family) {
    case AF_UNIX:
      return remote_of(ipc::peer_of(socket));
    case AF_INET:
      return remote_of(reinterpret_cast<const sockaddr_in&>(storage).sin_addr);
    case AF_INET6:
      return remote_of(reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
    default:
      return std::nullopt;
  }
}

}  // namespace lowgear::http
