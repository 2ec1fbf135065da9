#include "agent/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <list>
#include <map>
#include <system_error>
#include <utility>

#include "agent/cpu_power.h"
#include "agent/http_connection.h"
#include "agent/http_routes.h"
#include "agent/metrics.h"
#include "core/error.h"
#include "core/monotonic_clock.h"
#include "ipc/file_descriptor.h"
#include "ipc/unix_listener.h"

namespace lowgear {
namespace {

using StreamProtocol = boost::asio::generic::stream_protocol;
using Acceptor = boost::asio::basic_socket_acceptor<StreamProtocol>;

constexpr std::chrono::milliseconds kAcceptRetry{100};
/// RAPL's counters start over after a minute at full load.
constexpr std::chrono::seconds kCpuReadPeriod{20};

std::optional<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return Peer{.uid = credentials.uid, .gid = credentials.gid, .pid = credentials.pid};
}

[[noreturn]] void throw_port_error(std::uint16_t port) {
  throw InputError("127.0.0.1:" + std::to_string(port) +
                   ": cannot listen there: " + std::generic_category().message(errno) + "; configure another port");
}

FileDescriptor listen_loopback(std::uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_port_error(port);
  const int enabled = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &enabled, sizeof(enabled));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    throw_port_error(port);
  }
  return socket;
}

std::uint16_t port_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) throw_port_error(0);
  return ntohs(address.sin_port);
}

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

class HttpServer::Impl : public HttpConnectionOwner, public std::enable_shared_from_this<HttpServer::Impl> {
 public:
  Impl(boost::asio::io_context& io, AgentService& service, CpuMeter* cpu_meter, HttpServerOptions options)
      : io_(io),
        service_(service),
        options_(std::move(options)),
        cpu_power_(cpu_meter, monotonic_ns),
        tick_timer_(io) {}

  void listen(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group) {
    FileDescriptor socket = lowgear::listen_unix(path, mode, group);
    struct stat made {};
    if (::lstat(path.c_str(), &made) == 0) files_.push_back({path, made.st_dev, made.st_ino});
    add_listener(std::move(socket), StreamProtocol(AF_UNIX, 0));
  }

  std::uint16_t listen(std::uint16_t port) {
    FileDescriptor socket = listen_loopback(port);
    const std::uint16_t taken = port_of(socket.get());
    add_listener(std::move(socket), StreamProtocol(AF_INET, IPPROTO_TCP));
    return taken;
  }

  void stop() {
    stopped_ = true;
    boost::system::error_code ignored;
    for (Listener& listener : listeners_) {
      listener.acceptor.close(ignored);
      listener.retry.cancel();
    }
    tick_timer_.cancel();
    for (const auto& connection : all_connections()) connection->close();
    for (const SocketFile& file : std::exchange(files_, {})) {
      struct stat now {};
      if (::lstat(file.path.c_str(), &now) != 0 || now.st_dev != file.device || now.st_ino != file.inode) continue;
      ::unlink(file.path.c_str());
    }
  }

  [[nodiscard]] std::size_t connections() const { return connections_.size(); }
  [[nodiscard]] std::size_t streams() const { return streams_.size(); }

  [[nodiscard]] const HttpServerOptions& options() const override { return options_; }

  HttpResponse answer(const HttpRequest& request) override {
    return handle(request, RouteContext{service_, cpu_power_, metrics_});
  }

  bool subscribe(HttpConnection& connection, const PowerStream& stream) override {
    if (streams_.size() >= options_.max_streams) return false;
    streams_.emplace(&connection, stream);
    return true;
  }

  void closed(HttpConnection& connection) override {
    streams_.erase(&connection);
    connections_.erase(&connection);
  }

 private:
  struct Listener {
    Acceptor acceptor;
    boost::asio::steady_timer retry;
    bool attests;  ///< the kernel tells who connects
  };

  void warn(const std::string& message) const {
    if (options_.warn) options_.warn(message);
  }

  [[nodiscard]] std::vector<std::shared_ptr<HttpConnection>> all_connections() const {
    std::vector<std::shared_ptr<HttpConnection>> all;
    all.reserve(connections_.size());
    for (const auto& [address, connection] : connections_) all.push_back(connection);
    return all;
  }

  void add_listener(FileDescriptor socket, const StreamProtocol& protocol) {
    listeners_.emplace_back(Listener{Acceptor(io_), boost::asio::steady_timer(io_), protocol.family() == AF_UNIX});
    Listener& listener = listeners_.back();
    listener.acceptor.assign(protocol, socket.get());
    (void)socket.release();
    accept(listener);
    if (!std::exchange(ticking_, true)) {
      next_tick_ = std::chrono::steady_clock::now();
      tick();
    }
  }

  void accept(Listener& listener) {
    listener.acceptor.async_accept(
        [self = shared_from_this(), &listener](const boost::system::error_code& error, HttpConnection::Socket socket) {
          if (self->stopped_) return;
          if (error && out_of_resources(error)) return self->wait_to_accept(listener, error);
          if (!error) self->add_connection(std::move(socket), listener.attests);
          self->accept(listener);
        });
  }

  /// The client stays in the kernel's queue until a descriptor is free.
  void wait_to_accept(Listener& listener, const boost::system::error_code& error) {
    warn("a client has to wait: " + error.message());
    (void)close_longest_idle();
    listener.retry.expires_after(kAcceptRetry);
    listener.retry.async_wait([self = shared_from_this(), &listener](const boost::system::error_code& cancelled) {
      if (!cancelled && !self->stopped_) self->accept(listener);
    });
  }

  void add_connection(HttpConnection::Socket socket, bool attests) {
    boost::system::error_code ignored;
    socket.native_non_blocking(true, ignored);
    const std::optional<Peer> peer = attests ? peer_of(socket.native_handle()) : std::nullopt;
    if (attests && !peer) return;  // gone already
    if (!attests) {
      const int enabled = 1;
      ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NODELAY, &enabled, sizeof(enabled));
    }
    if (!make_room(peer)) {
      const std::string text =
          serialize(error_response(503, "too_many_connections", "the agent serves no more connections"),
                    AfterResponse::close, ResponseBody::included);
      (void)::send(socket.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      return;
    }
    auto connection = std::make_shared<HttpConnection>(std::move(socket), peer, *this);
    connections_.emplace(connection.get(), connection);
    connection->start();
  }

  /// No user, and not all of TCP, takes the last quarter of the connections from the others.
  [[nodiscard]] bool make_room(const std::optional<Peer>& peer) {
    const auto same_user = [&](const auto& entry) {
      const std::optional<Peer>& other = entry.second->peer();
      return other.has_value() == peer.has_value() && (!peer || other->uid == peer->uid);
    };
    const auto held = static_cast<std::size_t>(std::ranges::count_if(connections_, same_user));
    if (held >= options_.max_connections - options_.max_connections / 4) return false;
    return connections_.size() < options_.max_connections || close_longest_idle();
  }

  bool close_longest_idle() {
    std::shared_ptr<HttpConnection> longest;
    for (const auto& [address, connection] : connections_) {
      if (!connection->idle_since()) continue;
      if (!longest || *connection->idle_since() < *longest->idle_since()) longest = connection;
    }
    if (!longest) return false;
    longest->close();
    return true;
  }

  void tick() {
    try {
      const std::vector<GpuStatus> gpus = service_.gpus();
      metrics_.observe(gpus);
      if (std::chrono::steady_clock::now() - last_cpu_read_ > kCpuReadPeriod) {
        last_cpu_read_ = std::chrono::steady_clock::now();
        (void)cpu_power_.energy();
      }
      publish(gpus);
    } catch (const std::exception& error) {
      warn(std::string("no telemetry: ") + error.what());
    }
    next_tick_ = std::max(next_tick_ + options_.telemetry_period, std::chrono::steady_clock::now());
    tick_timer_.expires_at(next_tick_);
    tick_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error && !self->stopped_) self->tick();
    });
  }

  /// One text for all streams that ask for the same.
  void publish(const std::vector<GpuStatus>& gpus) {
    const RouteContext context{service_, cpu_power_, metrics_};
    std::map<PowerStream, std::shared_ptr<const std::string>> events;
    std::vector<std::pair<std::shared_ptr<HttpConnection>, std::shared_ptr<const std::string>>> due;
    for (const auto& [connection, stream] : streams_) {
      std::shared_ptr<const std::string>& event = events[stream];
      if (!event) {
        const std::string text = stream_event(stream, gpus, context);
        event = std::make_shared<const std::string>(text.empty() ? text : "data: " + text + "\n\n");
      }
      if (!event->empty()) due.emplace_back(connections_.at(connection), event);
    }
    for (const auto& [connection, event] : due) connection->push(event);
  }

  boost::asio::io_context& io_;
  AgentService& service_;
  HttpServerOptions options_;
  CpuPower cpu_power_;
  Metrics metrics_;
  std::list<Listener> listeners_;
  std::vector<SocketFile> files_;
  std::map<HttpConnection*, std::shared_ptr<HttpConnection>> connections_;
  std::map<HttpConnection*, PowerStream> streams_;
  boost::asio::steady_timer tick_timer_;
  std::chrono::steady_clock::time_point next_tick_;
  std::chrono::steady_clock::time_point last_cpu_read_ = std::chrono::steady_clock::now();
  bool ticking_ = false;
  bool stopped_ = false;
};

HttpServer::HttpServer(boost::asio::io_context& io, AgentService& service, CpuMeter* cpu_meter,
                       HttpServerOptions options)
    : impl_(std::make_shared<Impl>(io, service, cpu_meter, std::move(options))) {}

HttpServer::~HttpServer() { impl_->stop(); }

void HttpServer::listen_unix(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group) {
  impl_->listen(path, mode, group);
}

std::uint16_t HttpServer::listen_tcp(std::uint16_t port) { return impl_->listen(port); }

void HttpServer::stop() { impl_->stop(); }

std::size_t HttpServer::connections() const { return impl_->connections(); }

std::size_t HttpServer::streams() const { return impl_->streams(); }

}  // namespace lowgear
