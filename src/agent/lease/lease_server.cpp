#include "agent/lease/lease_server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "agent/lease/client_process.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/log.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::agent {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::local::stream_protocol;

/// Before a process has a lease it has nothing long to say.
constexpr std::size_t kMaxHelloBytes = 4 * ipc::kMaxStringBytes;
constexpr std::size_t kReadBytes = std::size_t{16} << 10U;

/// Sends a frame at once, with a descriptor attached when there is one. False when the peer does not take it: answers
/// are so short that only one that never reads lets the socket's buffer fill.
bool send_frame(int socket, std::span<const std::byte> frame, int descriptor = -1) {
  return ipc::send_with_descriptor(socket, frame, descriptor, MSG_DONTWAIT) == static_cast<ssize_t>(frame.size());
}

std::string one_line(std::string_view text) {
  constexpr std::size_t kMaxReason = 1000;
  return printable(text, kMaxReason);
}

/// Whether the same request is refused until a person changes something: no process has to end for it, no driver to
/// respond again.
bool lasts(const Error& error) {
  return dynamic_cast<const GpuBusy*>(&error) == nullptr && dynamic_cast<const gpu::GpuError*>(&error) == nullptr;
}

}  // namespace

class LeaseServer::Impl : public std::enable_shared_from_this<LeaseServer::Impl> {
 public:
  Impl(asio::io_context& io, LeaseGranter& granter, LeaseServerOptions options);

  void accept();
  void close(std::uint64_t lease_id);
  void end(std::uint64_t lease_id, std::string_view reason);
  void stop();
  [[nodiscard]] std::size_t connections() const { return connections_.size(); }

 private:
  class Connection;
  void accepted(const error_code& error, Protocol::socket socket);
  void add(Protocol::socket socket);
  bool make_room();
  void refuse_for_lack_of_descriptors();
  void remove(Connection& connection);
  /// Null when no connection holds it.
  [[nodiscard]] std::shared_ptr<Connection> holder_of(std::uint64_t lease_id) const;
  void warn(std::string_view text) const {
    if (options_.warn) options_.warn(text);
  }

  asio::io_context& io_;
  LeaseGranter& granter_;
  LeaseServerOptions options_;
  Protocol::acceptor acceptor_;
  asio::steady_timer retry_;
  /// Given up for a moment when there is no other, so that a client can be turned away instead of waiting for ever.
  FileDescriptor spare_;
  std::list<std::shared_ptr<Connection>> connections_;  ///< oldest first
  bool stopped_ = false;
};

/// One client, from its connection to its end.
class LeaseServer::Impl::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& server, Protocol::socket socket)
      : server_(&server),
        socket_(std::move(socket)),
        deadline_(server.io_),
        peer_(ipc::peer_of(socket_.native_handle())),
        reader_(std::min(kMaxHelloBytes, server.options_.max_frame_bytes)) {}

  void start() {
    expect_within(server_->options_.hello_timeout);
    read();
  }
  [[nodiscard]] std::optional<std::uint64_t> lease_id() const { return lease_id_; }
  /// Closes it without a word to the granter.
  void drop() {
    server_ = nullptr;
    error_code ignored;
    deadline_.cancel();
    socket_.close(ignored);
  }
  void refuse(std::string_view reason, bool lasts = false) {
    (void)send_frame(socket_.native_handle(), encode(ipc::RefusedMessage{.reason = one_line(reason), .lasts = lasts}));
  }
  void say_ended(std::string_view reason) {
    (void)send_frame(socket_.native_handle(), encode(ipc::EndedMessage{.reason = one_line(reason)}));
  }

 private:
  void read();
  void received(std::size_t bytes);
  void handle(const ipc::Frame& frame);
  void handle_hello(const ipc::Frame& frame);
  void handle_plan(const ipc::Frame& frame);
  void answer_plan(ipc::PlanAnswer answer);
  void expect_within(std::chrono::milliseconds time);
  /// Ends the lease, and this with it. Nothing of this connection may be used afterwards.
  void end();

  Impl* server_;  ///< null once closed
  Protocol::socket socket_;
  asio::steady_timer deadline_;
  Peer peer_;
  ipc::FrameReader reader_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kReadBytes);
  std::optional<std::uint64_t> lease_id_;
  bool plan_pending_ = false;
  bool within_frame_ = false;
};

void LeaseServer::Impl::Connection::read() {
  socket_.async_read_some(asio::buffer(buffer_.data(), buffer_.size()),
                          [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                            if (self->server_ == nullptr) return;
                            if (error) {
                              self->end();
                            } else {
                              self->received(bytes);
                            }
                          });
}

void LeaseServer::Impl::Connection::received(std::size_t bytes) {
  try {
    reader_.append(std::span(buffer_).first(bytes));
    bool whole = false;
    while (server_ != nullptr) {
      const std::optional<ipc::Frame> frame = reader_.next();
      if (!frame) break;
      whole = true;
      handle(*frame);
    }
    if (server_ == nullptr) return;
    if (lease_id_ && (whole || !within_frame_)) {
      // What follows a whole frame may be the beginning of another: the time for it counts from here.
      within_frame_ = !whole;
      if (within_frame_) {
        expect_within(server_->options_.frame_timeout);
      } else {
        deadline_.cancel();
      }
    }
  } catch (const Error& error) {
    refuse(error.what(), lasts(error));
    end();
    return;
  }
  read();
}

void LeaseServer::Impl::Connection::handle(const ipc::Frame& frame) {
  if (!lease_id_ && frame.type == ipc::FrameType::hello) {
    handle_hello(frame);
  } else if (lease_id_ && frame.type == ipc::FrameType::plan) {
    handle_plan(frame);
  } else if (lease_id_ && frame.type == ipc::FrameType::release) {
    end();
  } else {
    throw InputError("a frame of type " + std::to_string(static_cast<std::uint32_t>(frame.type)) +
                     " is not allowed here: a client says hello, sends plans and releases");
  }
}

void LeaseServer::Impl::Connection::handle_hello(const ipc::Frame& frame) {
  const ipc::HelloMessage hello = ipc::decode_hello(frame.payload);
  if (hello.version < ipc::kOldestLeaseProtocolVersion || hello.version > ipc::kLeaseProtocolVersion) {
    throw InputError("the client speaks version " + std::to_string(hello.version) +
                     " of the lease protocol, the agent " + std::to_string(ipc::kLeaseProtocolVersion) +
                     "; update the older of the two");
  }
  const LeaseGranter::Grant grant = server_->granter_.open_lease(peer_, hello);
  lease_id_ = grant.lease.lease_id;
  log_debug("lease " + std::to_string(*lease_id_) + ": opened by process " + std::to_string(peer_.pid) + " for GPU " +
            hello.gpu);
  reader_ = ipc::FrameReader(server_->options_.max_frame_bytes);
  if (!send_frame(socket_.native_handle(), encode(grant.lease), grant.ring->descriptor())) end();
}

void LeaseServer::Impl::Connection::handle_plan(const ipc::Frame& frame) {
  if (plan_pending_) throw InputError("a plan arrived before the previous one was answered");
  ipc::PlanMessage plan = ipc::decode_plan(frame.payload);
  plan_pending_ = true;
  // The thread of a GPU may hold on to the reply for longer than the socket's io_context lives.
  server_->granter_.take_plan(*lease_id_, std::move(plan), [connection = weak_from_this()](ipc::PlanAnswer answer) {
    const std::shared_ptr<Connection> self = connection.lock();
    if (self && self->server_ != nullptr) self->answer_plan(std::move(answer));
  });
}

void LeaseServer::Impl::Connection::answer_plan(ipc::PlanAnswer answer) {
  plan_pending_ = false;
  if (auto* refused = std::get_if<ipc::RefusedMessage>(&answer)) refused->reason = one_line(refused->reason);
  if (!send_frame(socket_.native_handle(), encode(answer))) end();
}

void LeaseServer::Impl::Connection::expect_within(std::chrono::milliseconds time) {
  deadline_.expires_after(time);
  deadline_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->server_ == nullptr) return;
    self->refuse(self->lease_id_ ? "a frame was not complete in time" : "no hello arrived in time");
    self->end();
  });
}

void LeaseServer::Impl::Connection::end() {
  Impl* server = server_;
  const auto self = shared_from_this();
  drop();
  if (server == nullptr) return;
  server->remove(*this);
  if (!lease_id_) return;
  log_debug("lease " + std::to_string(*lease_id_) + ": ended by its client");
  server->granter_.close_lease(*lease_id_);
}

LeaseServer::Impl::Impl(asio::io_context& io, LeaseGranter& granter, LeaseServerOptions options)
    : io_(io),
      granter_(granter),
      options_(std::move(options)),
      acceptor_(io, Protocol(), ipc::listen_unix(options_.socket, options_.mode, options_.group).release()),
      retry_(io),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

void LeaseServer::Impl::accept() {
  acceptor_.async_accept([self = shared_from_this()](const error_code& error, Protocol::socket socket) {
    self->accepted(error, std::move(socket));
  });
}

void LeaseServer::Impl::accepted(const error_code& error, Protocol::socket socket) {
  if (stopped_ || error == asio::error::operation_aborted) return;
  if (!error) {
    add(std::move(socket));
    accept();
    return;
  }
  if (error == asio::error::no_descriptors || error == boost::system::errc::too_many_files_open_in_system) {
    refuse_for_lack_of_descriptors();
  }
  // Whatever it lacks, trying again at once would only burn the processor.
  constexpr auto kRetryAfter = std::chrono::milliseconds(50);
  retry_.expires_after(kRetryAfter);
  retry_.async_wait([self = shared_from_this()](const error_code& cancelled) {
    if (!cancelled && !self->stopped_) self->accept();
  });
}

void LeaseServer::Impl::refuse_for_lack_of_descriptors() {
  warn("there are no file descriptors left: a client was turned away (raise LimitNOFILE)");
  spare_.reset();
  const FileDescriptor client(::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (client) {
    (void)send_frame(client.get(), encode(ipc::RefusedMessage{.reason = "the agent has no file descriptors left"}));
  }
  spare_ = FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void LeaseServer::Impl::add(Protocol::socket socket) {
  try {
    const auto connection = std::make_shared<Connection>(*this, std::move(socket));
    if (!make_room()) {
      connection->refuse("the agent has " + std::to_string(connections_.size()) +
                         " clients, as many as its configuration allows: wait until one ends, or raise "
                         "limits.max_clients");
      return;
    }
    connections_.push_back(connection);
    connection->start();
  } catch (const std::exception& error) {
    warn(std::string("a client was turned away: ") + error.what());
  }
}

bool LeaseServer::Impl::make_room() {
  if (connections_.size() < options_.max_connections) return true;
  const auto idle = std::ranges::find_if(connections_, [](const auto& connection) { return !connection->lease_id(); });
  if (idle == connections_.end()) return false;
  (*idle)->refuse("others are waiting, and no hello arrived");
  (*idle)->drop();
  connections_.erase(idle);
  return true;
}

void LeaseServer::Impl::remove(Connection& connection) {
  std::erase_if(connections_, [&connection](const auto& each) { return each.get() == &connection; });
}

std::shared_ptr<LeaseServer::Impl::Connection> LeaseServer::Impl::holder_of(std::uint64_t lease_id) const {
  const auto holder =
      std::ranges::find_if(connections_, [lease_id](const auto& each) { return each->lease_id() == lease_id; });
  return holder != connections_.end() ? *holder : nullptr;
}

void LeaseServer::Impl::close(std::uint64_t lease_id) {
  const std::shared_ptr<Connection> connection = holder_of(lease_id);
  if (!connection) return;
  connection->drop();
  remove(*connection);
}

void LeaseServer::Impl::end(std::uint64_t lease_id, std::string_view reason) {
  if (const std::shared_ptr<Connection> connection = holder_of(lease_id)) connection->say_ended(reason);
  close(lease_id);
}

void LeaseServer::Impl::stop() {
  if (std::exchange(stopped_, true)) return;
  error_code ignored;
  retry_.cancel();
  acceptor_.close(ignored);
  for (const auto& connection : connections_) connection->drop();
  connections_.clear();
  std::error_code not_removed;
  std::filesystem::remove(options_.socket, not_removed);
}

LeaseServer::LeaseServer(asio::io_context& io, LeaseGranter& granter, LeaseServerOptions options)
    : impl_(std::make_shared<Impl>(io, granter, std::move(options))) {
  impl_->accept();
}

// NOLINTNEXTLINE(bugprone-exception-escape): cancelling a timer throws nothing on Linux
LeaseServer::~LeaseServer() { impl_->stop(); }
void LeaseServer::close(std::uint64_t lease_id) { impl_->close(lease_id); }
void LeaseServer::end(std::uint64_t lease_id, std::string_view reason) { impl_->end(lease_id, reason); }
void LeaseServer::stop() { impl_->stop(); }
std::size_t LeaseServer::connections() const { return impl_->connections(); }

}  // namespace lowgear::agent
