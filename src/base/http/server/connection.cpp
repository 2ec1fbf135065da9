#include "base/http/server/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/core/log.h"
#include "base/http/message/error.h"

namespace lowgear::http {
namespace {

constexpr std::chrono::milliseconds kLingerTimeout{1000};
constexpr std::size_t kMaxDiscarded = std::size_t{1024} * 1024;
/// Of requests that came before the one at hand was answered; the rest waits in the kernel.
constexpr std::size_t kMaxPipelinedBytes = std::size_t{64} * 1024;
/// Kept by a connection that waits for its next request.
constexpr std::size_t kMaxIdleBytes = 2048;
/// Pieces that one system call sends.
constexpr std::size_t kMaxPieces = 16;

std::shared_ptr<const std::string> shared_text(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

class ConnectionStream : public EventStream {
 public:
  explicit ConnectionStream(std::weak_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ConnectionStream(const ConnectionStream&) = delete;
  ConnectionStream& operator=(const ConnectionStream&) = delete;
  ~ConnectionStream() override {
    if (const auto connection = connection_.lock()) connection->drop_stream();
  }
  void push(std::shared_ptr<const std::string> event) override {
    if (const auto connection = connection_.lock()) connection->push(std::move(event));
  }
  [[nodiscard]] bool closed() const override {
    const auto connection = connection_.lock();
    return !connection || !connection->streaming();
  }

 private:
  std::weak_ptr<Connection> connection_;
};

/// The reply to one request of a connection, which it does not keep alive.
class ConnectionReply final : public Reply {
 public:
  ConnectionReply(std::weak_ptr<Connection> connection, std::uint64_t request)
      : connection_(std::move(connection)), request_(request) {}
  ConnectionReply(const ConnectionReply&) = delete;
  ConnectionReply& operator=(const ConnectionReply&) = delete;
  ~ConnectionReply() override {
    if (!closed()) send(error_response(ErrorCode::internal, "the request was not answered"));
  }

  void send(Response response) override {
    answered_ = true;
    if (const auto connection = connection_.lock()) connection->answer(request_, response);
  }
  [[nodiscard]] std::shared_ptr<EventStream> stream(Response head) override {
    const auto connection = connection_.lock();
    if (connection && connection->begin_stream(request_, head)) return std::make_shared<ConnectionStream>(connection);
    answered_ = true;
    return nullptr;
  }
  [[nodiscard]] bool closed() const override {
    const auto connection = connection_.lock();
    return !connection || !connection->awaits_answer(request_);
  }
  void on_close(std::function<void()> callback) override {
    if (answered_) return;
    const auto connection = connection_.lock();
    if (!connection || !connection->on_close(request_, callback)) callback();
  }

 private:
  std::weak_ptr<Connection> connection_;
  std::uint64_t request_;
  bool answered_ = false;  ///< other than by a stream
};

}  // namespace

Connection::Connection(Socket socket, Remote remote, ConnectionOwner& owner, SocketStream stream)
    : socket_(std::move(socket)),
      stream_(std::move(stream)),
      remote_(std::move(remote)),
      owner_(owner),
      deadline_{boost::asio::steady_timer(socket_.get_executor())} {}

void Connection::start() {
  state_ = State::handshaking;
  handshake();
  if (state_ == State::handshaking) arm(owner_.options().request_timeout);
}

void Connection::await_first_request() {
  state_ = State::waiting;
  owner_.set_idle(*this, true);
  arm(owner_.options().idle_timeout);
  wait_for_input();
}

void Connection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  const std::function<void()> callback = std::exchange(request_.on_close, nullptr);
  deadline_.timer.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  owner_.closed(*this);
  if (callback) callback();
}

void Connection::drain() {
  request_.after = AfterResponse::close;
  if (state_ == State::waiting || state_ == State::handshaking) return close();
  end_stream();
}

void Connection::handshake() {
  const StreamStep step = stream_.handshake();
  switch (step.status) {
    case StreamStatus::done:
      return await_first_request();
    case StreamStatus::ended:
    case StreamStatus::failed:
      return on_failed_handshake();
    case StreamStatus::wants_read:
    case StreamStatus::wants_write:
      break;
  }
  const auto wait = step.status == StreamStatus::wants_read ? Socket::wait_read : Socket::wait_write;
  socket_.async_wait(wait, [self = shared_from_this()](const boost::system::error_code& error) {
    if (self->state_ == State::closed) return;
    if (error) return self->close();
    self->handshake();
  });
}

void Connection::on_failed_handshake() {
  if (stream_.is_plain_http()) {
    const Response response =
        error_response(ErrorCode::bad_request, "this port speaks TLS: use https:// instead of http://");
    std::string text = serialize_head(response, AfterResponse::close, ResponseLength::known);
    text += response.text();
    (void)::send(socket_.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  close();
}

void Connection::wait_for_input() {
  if (state_ == State::closed || input_.is_awaited || input_.has_ended) return;
  if (state_ != State::reading && input_.text.size() >= kMaxPipelinedBytes) return;
  input_.is_awaited = true;
  const auto on_input = [self = shared_from_this()](const boost::system::error_code& error) {
    self->input_.is_awaited = false;
    if (self->state_ == State::closed) return;
    if (error) return self->close();
    self->receive();
    self->wait_for_input();
  };
  // What TLS has taken from the socket already, the socket does not show.
  if (stream_.has_more()) {
    return boost::asio::post(socket_.get_executor(), [on_input] { on_input({}); });
  }
  socket_.async_wait(Socket::wait_read, on_input);
}

void Connection::receive() {
  const std::span<char> buffer = owner_.receive_buffer();
  const StreamStep step = stream_.read(buffer);
  if (step.status == StreamStatus::failed) return close();
  if (step.status == StreamStatus::ended) return on_end_of_input();
  if (step.status != StreamStatus::done) return;
  if (state_ == State::streaming || state_ == State::lingering) {
    input_.discarded_bytes += step.bytes;
    if (input_.discarded_bytes > kMaxDiscarded) close();
    return;
  }
  input_.text.append(buffer.data(), step.bytes);
  if (state_ == State::waiting || state_ == State::reading) parse();
}

/// A client that has its answer on the way may have ended its side only.
void Connection::on_end_of_input() {
  input_.has_ended = true;
  if (state_ != State::answering) close();
}

void Connection::parse() {
  if (state_ == State::waiting) {
    // From the first byte to the last: a client that sends one byte at a time gains no time by it.
    state_ = State::reading;
    owner_.set_idle(*this, false);
    input_.parser = std::make_unique<RequestParser>(owner_.options().limits);
    input_.told_to_continue = false;
    request_.head_only = false;
    request_.text.clear();
    arm(owner_.options().request_timeout);
  }
  std::size_t taken = 0;
  while (const std::size_t more = input_.parser->put(std::string_view(input_.text).substr(taken))) taken += more;
  input_.text.erase(0, taken);
  if (input_.parser->refusal()) return respond(*input_.parser->refusal(), AfterResponse::close);
  if (input_.parser->complete()) return dispatch();
  if (input_.has_ended) return close();
  if (input_.parser->expects_continue() && !std::exchange(input_.told_to_continue, true)) {
    write(shared_text("HTTP/1.1 100 Continue\r\n\r\n"));
  }
}

void Connection::dispatch() {
  state_ = State::handling;
  disarm();
  request_.after = input_.parser->keep_alive() && !owner_.draining() ? AfterResponse::keep_alive : AfterResponse::close;
  http::Request request = input_.parser->take();
  input_.parser.reset();
  request.peer = remote_.peer;
  request.remote = remote_.address;
  request_.head_only = request.method == "HEAD";
  ++request_.number;
  if (logs_debug()) request_.text = fmt::format("{} {} from {}", request.method, request.path, remote_.address);
  if (const std::optional<Response> refusal = owner_.refuse(remote_.client)) return respond(*refusal, request_.after);
  owner_.handle(std::move(request), std::make_shared<ConnectionReply>(weak_from_this(), request_.number));
}

bool Connection::awaits_answer(std::uint64_t request) const {
  return state_ == State::handling && request == request_.number;
}

void Connection::answer(std::uint64_t request, const Response& response) {
  if (awaits_answer(request)) respond(response, request_.after);
}

bool Connection::begin_stream(std::uint64_t request, const Response& head) {
  if (!awaits_answer(request)) return false;
  if (!request_.head_only && !owner_.begin_stream(*this)) {
    respond(error_response(ErrorCode::too_many_streams,
                           "the maximum number of streams is reached; close another one first"),
            request_.after);
    return false;
  }
  if (logs_debug()) log_debug(fmt::format("{}: {}, a stream", request_.text, head.status));
  auto text = shared_text(serialize_head(head, AfterResponse::close, ResponseLength::until_the_end));
  if (request_.head_only) {
    state_ = State::answering;
    request_.after = AfterResponse::close;
    arm(owner_.options().request_timeout);
    write(std::move(text));
    return false;
  }
  state_ = State::streaming;
  if (const auto retry = owner_.options().stream_retry; retry.count() > 0) {
    write(shared_text(*text + "retry: " + std::to_string(retry.count()) + "\n\n"));
  } else {
    write(std::move(text));
  }
  if (state_ == State::streaming && head.body) push(head.body);
  if (owner_.draining()) end_stream();
  return state_ == State::streaming;
}

bool Connection::on_close(std::uint64_t request, std::function<void()>& callback) {
  if (request != request_.number || state_ == State::closed) return false;
  request_.on_close = std::move(callback);
  return true;
}

void Connection::respond(const Response& response, AfterResponse after) {
  if (logs_debug()) log_debug(fmt::format("{}: {}", request_.text, response.status));
  state_ = State::answering;
  request_.after = owner_.draining() ? AfterResponse::close : after;
  const std::function<void()> dropped = std::exchange(request_.on_close, nullptr);
  arm(owner_.options().request_timeout);
  auto head = shared_text(serialize_head(response, request_.after, ResponseLength::known));
  output_.bytes += head->size();
  output_.texts.push_back(std::move(head));
  if (!request_.head_only && !response.text().empty()) {
    output_.bytes += response.body->size();
    output_.texts.push_back(response.body);
  }
  flush();
}

void Connection::push(std::shared_ptr<const std::string> event) {
  if (!streaming() || !event || event->empty()) return;
  if (output_.bytes + event->size() > owner_.options().max_stream_backlog_bytes) return close();
  write(std::move(event));
}

void Connection::end_stream() {
  if (!streaming()) return;
  request_.stream_ending = true;
  if (output_.texts.empty()) linger();
}

void Connection::drop_stream() {
  const std::function<void()> dropped = std::exchange(request_.on_close, nullptr);
  end_stream();
}

void Connection::write(std::shared_ptr<const std::string> text) {
  output_.bytes += text->size();
  output_.texts.push_back(std::move(text));
  flush();
}

/// Sends what the socket takes.
void Connection::flush() {
  if (output_.awaits_room) return;
  StreamStatus status = StreamStatus::done;
  while (!output_.texts.empty()) {
    const StreamStep step = write_pieces();
    status = step.status;
    if (status == StreamStatus::ended || status == StreamStatus::failed) return close();
    if (status != StreamStatus::done) break;
    consume(step.bytes);
  }
  if (output_.texts.empty()) return on_flushed();
  if (state_ == State::streaming) arm(owner_.options().request_timeout);
  output_.awaits_room = true;
  const auto wait = status == StreamStatus::wants_read ? Socket::wait_read : Socket::wait_write;
  socket_.async_wait(wait, [self = shared_from_this()](const boost::system::error_code& error) {
    self->output_.awaits_room = false;
    if (self->state_ == State::closed) return;
    if (error) return self->close();
    self->flush();
  });
}

StreamStep Connection::write_pieces() {
  std::array<iovec, kMaxPieces> pieces{};
  std::size_t count = 0;
  for (const auto& text : output_.texts) {
    if (count == pieces.size()) break;
    const std::size_t skipped = count == 0 ? output_.written_bytes : 0;
    pieces[count++] = {.iov_base = const_cast<char*>(text->data() + skipped), .iov_len = text->size() - skipped};
  }
  return stream_.write(std::span(pieces).first(count));
}

void Connection::consume(std::size_t bytes) {
  output_.bytes -= bytes;
  output_.written_bytes += bytes;
  while (!output_.texts.empty() && output_.written_bytes >= output_.texts.front()->size()) {
    output_.written_bytes -= output_.texts.front()->size();
    output_.texts.pop_front();
  }
}

void Connection::on_flushed() {
  if (state_ == State::streaming) {
    if (request_.stream_ending) return linger();
    if (const auto heartbeat = owner_.options().stream_heartbeat; heartbeat.count() > 0) return arm(heartbeat);
    disarm();
  } else if (state_ == State::answering) {
    if (request_.after == AfterResponse::close) return linger();
    await_next_request();
  }  // else that was `100 Continue`
}

void Connection::await_next_request() {
  state_ = State::waiting;
  if (input_.text.empty() && input_.has_ended) return close();
  owner_.set_idle(*this, true);
  arm(owner_.options().idle_timeout);
  wait_for_input();
  if (input_.text.empty()) {
    if (input_.text.capacity() > kMaxIdleBytes) input_.text = {};
    return;
  }
  // The next request came before this one's answer. Others get their turn first.
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->state_ != State::waiting || self->input_.text.empty()) return;
    self->parse();
    if (self->state_ != State::closed) self->wait_for_input();
  });
}

void Connection::linger() {
  if (input_.has_ended) return close();
  state_ = State::lingering;
  boost::system::error_code ignored;
  stream_.end();
  socket_.shutdown(Socket::shutdown_send, ignored);
  input_.text.clear();
  arm(kLingerTimeout);
  wait_for_input();
}

void Connection::arm(Clock::duration timeout) {
  deadline_.at = Clock::now() + timeout;
  if (deadline_.at < deadline_.timer_at) schedule_timer();
}

void Connection::disarm() { deadline_.at = Clock::time_point::max(); }

void Connection::schedule_timer() {
  deadline_.timer_at = deadline_.at;
  deadline_.timer.expires_at(deadline_.at);
  deadline_.timer.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->state_ == State::closed) return;
    self->deadline_.timer_at = Clock::time_point::max();
    if (self->deadline_.at <= Clock::now()) return self->on_timeout();
    if (self->deadline_.at != Clock::time_point::max()) self->schedule_timer();
  });
}

void Connection::on_timeout() {
  disarm();
  if (state_ == State::reading) {
    return respond(error_response(ErrorCode::request_timeout, "the request did not arrive in time"),
                   AfterResponse::close);
  }
  if (state_ != State::streaming || !output_.texts.empty()) return close();
  static const std::shared_ptr<const std::string> heartbeat = shared_text(":\n\n");
  write(heartbeat);
}

}  // namespace lowgear::http
