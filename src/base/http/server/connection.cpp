#include "base/http/server/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "base/http/message/error.h"
#include "base/http/server/connection_reply.h"

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

}  // namespace

Connection::Connection(Socket socket, Remote remote, ConnectionOwner& owner)
    : socket_(std::move(socket)), remote_(std::move(remote)), owner_(owner), timer_(socket_.get_executor()) {}

void Connection::start() {
  owner_.set_idle(*this, true);
  arm(owner_.options().idle_timeout);
  wait_for_input();
}

void Connection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  const std::function<void()> callback = std::exchange(on_close_, nullptr);
  timer_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  owner_.closed(*this);
  if (callback) callback();
}

void Connection::drain() {
  after_ = AfterResponse::close;
  if (state_ == State::waiting) return close();
  end_stream();
}

// --- reading
// ----------------------------------------------------------------------------------------------------------

void Connection::wait_for_input() {
  if (state_ == State::closed || awaits_input_ || input_ended_) return;
  if (state_ != State::reading && input_.size() >= kMaxPipelinedBytes) return;
  awaits_input_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    self->awaits_input_ = false;
    if (self->state_ == State::closed) return;
    if (error) return self->close();
    self->receive();
    self->wait_for_input();
  });
}

void Connection::receive() {
  const std::span<char> buffer = owner_.receive_buffer();
  const ssize_t received = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (received < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) close();
    return;
  }
  if (received == 0) return on_end_of_input();
  const auto bytes = static_cast<std::size_t>(received);
  if (state_ == State::streaming || state_ == State::lingering) {
    discarded_bytes_ += bytes;
    if (discarded_bytes_ > kMaxDiscarded) close();
    return;
  }
  input_.append(buffer.data(), bytes);
  if (state_ == State::waiting || state_ == State::reading) parse();
}

/// A client that has its answer on the way may have ended its side only.
void Connection::on_end_of_input() {
  input_ended_ = true;
  if (state_ != State::answering) close();
}

void Connection::parse() {
  if (state_ == State::waiting) {
    // From the first byte to the last: a client that sends one byte at a time gains no time by it.
    state_ = State::reading;
    owner_.set_idle(*this, false);
    parser_.emplace(owner_.options().limits);
    told_to_continue_ = false;
    head_only_ = false;
    arm(owner_.options().request_timeout);
  }
  std::size_t taken = 0;
  while (const std::size_t more = parser_->put(std::string_view(input_).substr(taken))) taken += more;
  input_.erase(0, taken);
  if (parser_->refusal()) return respond(*parser_->refusal(), AfterResponse::close);
  if (parser_->complete()) return dispatch();
  if (input_ended_) return close();
  if (parser_->expects_continue() && !std::exchange(told_to_continue_, true)) {
    write(shared_text("HTTP/1.1 100 Continue\r\n\r\n"));
  }
}

void Connection::dispatch() {
  state_ = State::handling;
  disarm();
  after_ = parser_->keep_alive() && !owner_.draining() ? AfterResponse::keep_alive : AfterResponse::close;
  Request request = parser_->take();
  parser_.reset();
  request.peer = remote_.peer;
  request.remote = remote_.address;
  head_only_ = request.method == "HEAD";
  ++request_;
  if (const std::optional<Response> refusal = owner_.refuse(remote_.client)) return respond(*refusal, after_);
  owner_.handle(std::move(request), std::make_shared<ConnectionReply>(weak_from_this(), request_));
}

// --- answering
// --------------------------------------------------------------------------------------------------------

bool Connection::awaits_answer(std::uint64_t request) const { return state_ == State::handling && request == request_; }

void Connection::answer(std::uint64_t request, const Response& response) {
  if (awaits_answer(request)) respond(response, after_);
}

bool Connection::begin_stream(std::uint64_t request, const Response& head) {
  if (!awaits_answer(request)) return false;
  if (!head_only_ && !owner_.begin_stream(*this)) {
    respond(error_response(ErrorCode::too_many_streams,
                           "the maximum number of streams is reached; close another one first"),
            after_);
    return false;
  }
  auto text = shared_text(serialize_head(head, AfterResponse::close, ResponseLength::until_the_end));
  if (head_only_) {
    state_ = State::answering;
    after_ = AfterResponse::close;
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
  if (request != request_ || state_ == State::closed) return false;
  on_close_ = std::move(callback);
  return true;
}

void Connection::respond(const Response& response, AfterResponse after) {
  state_ = State::answering;
  after_ = owner_.draining() ? AfterResponse::close : after;
  const std::function<void()> dropped = std::exchange(on_close_, nullptr);
  arm(owner_.options().request_timeout);
  auto head = shared_text(serialize_head(response, after_, ResponseLength::known));
  output_bytes_ += head->size();
  output_.push_back(std::move(head));
  if (!head_only_ && !response.text().empty()) {
    output_bytes_ += response.body->size();
    output_.push_back(response.body);
  }
  flush();
}

void Connection::push(std::shared_ptr<const std::string> event) {
  if (!streaming() || !event || event->empty()) return;
  if (output_bytes_ + event->size() > owner_.options().max_stream_backlog_bytes) return close();
  write(std::move(event));
}

void Connection::end_stream() {
  if (!streaming()) return;
  stream_ending_ = true;
  if (output_.empty()) linger();
}

void Connection::drop_stream() {
  const std::function<void()> dropped = std::exchange(on_close_, nullptr);
  end_stream();
}

// --- writing
// ----------------------------------------------------------------------------------------------------------

void Connection::write(std::shared_ptr<const std::string> text) {
  output_bytes_ += text->size();
  output_.push_back(std::move(text));
  flush();
}

/// Sends what the socket takes, pieces together, without copying them.
void Connection::flush() {
  if (awaits_room_) return;
  while (!output_.empty()) {
    std::array<iovec, kMaxPieces> pieces{};
    std::size_t count = 0;
    for (const auto& text : output_) {
      if (count == pieces.size()) break;
      const std::size_t skipped = count == 0 ? written_bytes_ : 0;
      pieces[count++] = {.iov_base = const_cast<char*>(text->data() + skipped), .iov_len = text->size() - skipped};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return close();
    if (sent < 0) break;
    consume(static_cast<std::size_t>(sent));
  }
  if (output_.empty()) return on_flushed();
  if (state_ == State::streaming) arm(owner_.options().request_timeout);
  awaits_room_ = true;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const boost::system::error_code& error) {
    self->awaits_room_ = false;
    if (self->state_ == State::closed) return;
    if (error) return self->close();
    self->flush();
  });
}

void Connection::consume(std::size_t bytes) {
  output_bytes_ -= bytes;
  written_bytes_ += bytes;
  while (!output_.empty() && written_bytes_ >= output_.front()->size()) {
    written_bytes_ -= output_.front()->size();
    output_.pop_front();
  }
}

void Connection::on_flushed() {
  if (state_ == State::streaming) {
    if (stream_ending_) return linger();
    if (const auto heartbeat = owner_.options().stream_heartbeat; heartbeat.count() > 0) return arm(heartbeat);
    disarm();
  } else if (state_ == State::answering) {
    if (after_ == AfterResponse::close) return linger();
    await_next_request();
  }  // else that was `100 Continue`
}

void Connection::await_next_request() {
  state_ = State::waiting;
  if (input_.empty() && input_ended_) return close();
  owner_.set_idle(*this, true);
  arm(owner_.options().idle_timeout);
  wait_for_input();
  if (input_.empty()) {
    if (input_.capacity() > kMaxIdleBytes) input_ = {};
    return;
  }
  // The next request came before this one's answer. Others get their turn first.
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->state_ != State::waiting || self->input_.empty()) return;
    self->parse();
    if (self->state_ != State::closed) self->wait_for_input();
  });
}

void Connection::linger() {
  if (input_ended_) return close();
  state_ = State::lingering;
  boost::system::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  input_.clear();
  arm(kLingerTimeout);
  wait_for_input();
}

// --- deadlines
// --------------------------------------------------------------------------------------------------------

void Connection::arm(Clock::duration timeout) {
  deadline_ = Clock::now() + timeout;
  if (deadline_ < timer_at_) schedule_timer();
}

void Connection::disarm() { deadline_ = Clock::time_point::max(); }

void Connection::schedule_timer() {
  timer_at_ = deadline_;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->state_ == State::closed) return;
    self->timer_at_ = Clock::time_point::max();
    if (self->deadline_ <= Clock::now()) return self->on_timeout();
    if (self->deadline_ != Clock::time_point::max()) self->schedule_timer();
  });
}

void Connection::on_timeout() {
  disarm();
  if (state_ == State::reading) {
    return respond(error_response(ErrorCode::request_timeout, "the request did not arrive in time"),
                   AfterResponse::close);
  }
  if (state_ != State::streaming || !output_.empty()) return close();
  static const std::shared_ptr<const std::string> heartbeat = shared_text(":\n\n");
  write(heartbeat);
}

}  // namespace lowgear::http
