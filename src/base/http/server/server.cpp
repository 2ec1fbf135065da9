#include "base/http/server/server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cmath>
#include <exception>
#include <list>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/http/message/error.h"
#include "base/http/message/wire.h"
#include "base/http/server/client_limits.h"
#include "base/http/server/connection.h"
#include "base/http/tls/tls_credentials.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::http {
namespace {

namespace asio = boost::asio;
using StreamProtocol = asio::generic::stream_protocol;
using Acceptor = asio::basic_socket_acceptor<StreamProtocol>;

constexpr std::chrono::milliseconds kAcceptRetry{100};
constexpr std::chrono::minutes kBetweenWarnings{1};
constexpr std::size_t kReceiveBytes = std::size_t{64} * 1024;

bool out_of_resources(const boost::system::error_code& error) {
  const int code = error.value();
  return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

/// A socket's file, to be removed only while it is still the one that was made.
struct SocketFile {
  std::filesystem::path path;
  dev_t device = 0;
  ino_t inode = 0;
};

}  // namespace

class Server::Impl : public ConnectionOwner, public std::enable_shared_from_this<Server::Impl> {
 public:
  Impl(asio::io_context& io, Handler& handler, ServerOptions options)
      : io_(io),
        handler_(handler),
        options_(std::move(options)),
        rate_limiter_(options_.rate_limit),
        receive_buffer_(kReceiveBytes),
        drain_timer_(io) {
    if (options_.max_connections_per_client == 0) {
      options_.max_connections_per_client = options_.max_connections - options_.max_connections / 4;
    }
  }

  void listen(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group) {
    FileDescriptor socket = lowgear::ipc::listen_unix(path, mode, group);
    struct stat made {};
    if (::lstat(path.c_str(), &made) == 0) files_.push_back({path, made.st_dev, made.st_ino});
    add_listener(std::move(socket), StreamProtocol(AF_UNIX, 0));
  }

  /// Null `tls`: plain HTTP.
  std::uint16_t listen(const std::string& address, std::uint16_t port, std::shared_ptr<const TlsServerSide> tls) {
    TcpListener listener = lowgear::http::listen_tcp(address, port);
    const int family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
    add_listener(std::move(listener.socket), StreamProtocol(family, IPPROTO_TCP), std::move(tls));
    return listener.port;
  }

  void stop() {
    stop_listening();
    drain_timer_.cancel();
    for (const auto& connection : connections_.all()) connection->close();
  }

  void drain(std::chrono::milliseconds patience, std::function<void()> done) {
    draining_ = true;
    drained_ = std::move(done);
    stop_listening();
    drain_timer_.expires_after(patience);
    drain_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->stop();
    });
    for (const auto& connection : connections_.all()) connection->drain();
    if (connections_.empty()) report_drained();
  }

  [[nodiscard]] std::size_t connections() const { return connections_.size(); }
  [[nodiscard]] std::size_t streams() const { return connections_.streams(); }

  [[nodiscard]] const ServerOptions& options() const override { return options_; }
  [[nodiscard]] std::span<char> receive_buffer() override { return receive_buffer_; }
  [[nodiscard]] bool draining() const override { return draining_; }

  void handle(Request request, std::shared_ptr<Reply> reply) override {
    try {
      handler_.handle(std::move(request), std::move(reply));
    } catch (const std::exception& error) {
      warn(fmt::format("a request was not answered: {}", error.what()));  // the reply, dropped, says 500
    }
  }

  std::optional<Response> refuse(const std::string& client) override {
    const auto wait = rate_limiter_.refuse(client, RateLimiter::Clock::now());
    if (!wait) return std::nullopt;
    Response response =
        error_response(ErrorCode::too_many_requests, "this client sends too many requests; try again later");
    response.headers.emplace_back("Retry-After", fmt::format("{:.0f}", std::ceil(wait->count())));
    return response;
  }

  bool begin_stream(Connection& connection) override {
    if (connections_.streams() >= options_.max_streams) return false;
    connections_.set_streams(connection);
    return true;
  }

  void set_idle(Connection& connection, bool idle) override { connections_.set_idle(connection, idle); }

  void closed(Connection& connection) override {
    connections_.remove(connection);
    if (draining_ && connections_.empty()) report_drained();
  }

 private:
  struct Listener {
    Acceptor acceptor;
    asio::steady_timer retry;
    std::shared_ptr<const TlsServerSide> tls;
  };
  void warn(const std::string& message) const {
    if (options_.warn) options_.warn(message);
  }

  void add_listener(FileDescriptor socket, const StreamProtocol& protocol,
                    std::shared_ptr<const TlsServerSide> tls = nullptr) {
    listeners_.emplace_back(Listener{Acceptor(io_), asio::steady_timer(io_), std::move(tls)});
    Listener& listener = listeners_.back();
    listener.acceptor.assign(protocol, socket.get());
    (void)socket.release();
    accept(listener);
  }

  void stop_listening() {
    listening_ = false;
    boost::system::error_code ignored;
    for (Listener& listener : listeners_) {
      listener.acceptor.close(ignored);
      listener.retry.cancel();
    }
    for (const SocketFile& file : std::exchange(files_, {})) {
      struct stat now {};
      if (::lstat(file.path.c_str(), &now) != 0 || now.st_dev != file.device || now.st_ino != file.inode) continue;
      ::unlink(file.path.c_str());
    }
  }

  void accept(Listener& listener) {
    listener.acceptor.async_accept(
        [self = shared_from_this(), &listener](const boost::system::error_code& error, Connection::Socket socket) {
          if (!self->listening_) return;
          if (error && out_of_resources(error)) return self->wait_to_accept(listener, error);
          if (!error) self->add_connection(std::move(socket), listener.tls.get());
          self->accept(listener);
        });
  }

  /// The client stays in the kernel's queue until a descriptor is free.
  void wait_to_accept(Listener& listener, const boost::system::error_code& error) {
    const auto now = std::chrono::steady_clock::now();
    if (!warned_ || now - *warned_ >= kBetweenWarnings) {
      warn("clients have to wait: " + error.message());
      warned_ = now;
    }
    (void)close_longest_idle();
    listener.retry.expires_after(kAcceptRetry);
    listener.retry.async_wait([self = shared_from_this(), &listener](const boost::system::error_code& cancelled) {
      if (!cancelled && self->listening_) self->accept(listener);
    });
  }

  void add_connection(Connection::Socket socket, const TlsServerSide* tls) {
    std::optional<Remote> remote = remote_of(socket.native_handle());
    if (!remote) return;  // gone already
    if (!make_room(remote->client)) {
      if (tls == nullptr) refuse_connection(socket);
      return;
    }
    boost::system::error_code ignored;
    socket.native_non_blocking(true, ignored);
    std::string client = remote->client;
    SocketStream stream = tls == nullptr ? SocketStream(socket.native_handle()) : tls->stream(socket.native_handle());
    auto connection = std::make_shared<Connection>(std::move(socket), std::move(*remote), *this, std::move(stream));
    connections_.add(connection, std::move(client));
    connection->start();
  }

  static void refuse_connection(Connection::Socket& socket) {
    const Response refusal =
        error_response(ErrorCode::too_many_connections, "the maximum number of connections is reached");
    std::string text = serialize_head(refusal, AfterResponse::close, ResponseLength::known);
    text += refusal.text();
    (void)::send(socket.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  [[nodiscard]] bool make_room(const std::string& client) {
    if (connections_.of_client(client) >= options_.max_connections_per_client) return false;
    return connections_.size() < options_.max_connections || close_longest_idle();
  }

  bool close_longest_idle() {
    const std::shared_ptr<Connection> idle = connections_.longest_idle();
    if (idle) idle->close();
    return idle != nullptr;
  }

  void report_drained() {
    drain_timer_.cancel();
    if (drained_) asio::post(io_, std::exchange(drained_, nullptr));
  }

  asio::io_context& io_;
  Handler& handler_;
  ServerOptions options_;
  RateLimiter rate_limiter_;
  std::vector<char> receive_buffer_;
  std::list<Listener> listeners_;
  std::vector<SocketFile> files_;
  ConnectionTable<Connection> connections_;
  asio::steady_timer drain_timer_;
  std::function<void()> drained_;
  bool listening_ = true;
  std::optional<std::chrono::steady_clock::time_point> warned_;  ///< last, that clients have to wait
  bool draining_ = false;
};

Server::Server(asio::io_context& io, Handler& handler, ServerOptions options)
    : impl_(std::make_shared<Impl>(io, handler, std::move(options))) {}

// NOLINTNEXTLINE(bugprone-exception-escape): cancelling a timer throws nothing on Linux
Server::~Server() { impl_->stop(); }

void Server::listen_unix(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group) {
  impl_->listen(path, mode, group);
}

std::uint16_t Server::listen_tcp(const std::string& address, std::uint16_t port) {
  return impl_->listen(address, port, nullptr);
}

std::uint16_t Server::listen_tls(const std::string& address, std::uint16_t port,
                                 std::shared_ptr<const TlsServerSide> tls) {
  return impl_->listen(address, port, std::move(tls));
}

void Server::stop() { impl_->stop(); }

void Server::drain(std::chrono::milliseconds patience, std::function<void()> done) {
  impl_->drain(patience, std::move(done));
}

std::size_t Server::connections() const { return impl_->connections(); }

std::size_t Server::streams() const { return impl_->streams(); }

namespace {

Remote remote_of(asio::ip::address address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  Remote remote;
  if (address.is_v4()) {
    remote.address = address.to_string();
    remote.client = address.is_loopback() ? "127.0.0.0/8" : remote.address;
    return remote;
  }
  constexpr unsigned short kNetworkBits = 64;
  const asio::ip::address_v6 without_interface(address.to_v6().to_bytes());
  remote.address = without_interface.to_string();
  remote.client = asio::ip::make_network_v6(without_interface, kNetworkBits).canonical().to_string();
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
  asio::ip::tcp::endpoint end;
  auto size = static_cast<socklen_t>(end.capacity());
  if (::getpeername(socket, end.data(), &size) != 0) return std::nullopt;
  const int family = end.data()->sa_family;
  if (family == AF_UNIX) return remote_of(ipc::peer_of(socket));
  if (family != AF_INET && family != AF_INET6) return std::nullopt;
  return remote_of(end.address());
}

namespace {

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
  boost::system::error_code unknown;
  const asio::ip::tcp::endpoint where(asio::ip::make_address(address, unknown), port);
  if (unknown) throw InputError(quote(address) + " is not an address to listen on; write one as 127.0.0.1 or ::1");
  TcpListener listener;
  listener.socket = FileDescriptor(::socket(where.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket) throw_listen_error(address, port);
  const int enabled = 1;
  ::setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &enabled, sizeof(enabled));
  set_up_connections(listener.socket);
  asio::ip::tcp::endpoint taken;
  auto size = static_cast<socklen_t>(taken.capacity());
  if (::bind(listener.socket.get(), where.data(), static_cast<socklen_t>(where.size())) != 0 ||
      ::listen(listener.socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.socket.get(), taken.data(), &size) != 0) {
    throw_listen_error(address, port);
  }
  listener.port = taken.port();
  return listener;
}

}  // namespace lowgear::http
