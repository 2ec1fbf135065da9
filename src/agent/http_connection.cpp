#include "agent/http_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "agent/http_routes.h"

namespace lowgear {
namespace {

constexpr std::chrono::milliseconds kDrainTimeout{1000};
constexpr std::size_t kMaxDiscarded = 1024 * 1024;
constexpr int kMaxAttempts = 20;

}  // namespace

HttpConnection::HttpConnection(Socket socket, std::optional<Peer> peer, HttpConnectionOwner& owner)
    : socket_(std::move(socket)),
      peer_(peer),
      owner_(owner),
      deadline_(socket_.get_executor()),
      ask_again_(socket_.get_executor()),
      parser_(owner.options().limits) {}

void HttpConnection::start() {
  arm(owner_.options().idle_timeout);
  read();
}

std::optional<HttpConnection::Clock::time_point> HttpConnection::idle_since() const {
  if (state_ != State::waiting) return std::nullopt;
  return waiting_since_;
}

void HttpConnection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  deadline_.cancel();
  ask_again_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  owner_.closed(*this);
}

void HttpConnection::read() {
  socket_.async_read_some(boost::asio::buffer(chunk_),
                          [self = shared_from_this()](const boost::system::error_code& error, std::size_t bytes) {
                            // Answering: the request took too long, and reading it was called off.
                            if (self->state_ == State::closed || self->state_ == State::answering) return;
                            if (error) return self->close();
                            self->on_read(bytes);
                          });
}

void HttpConnection::on_read(std::size_t bytes) {
  if (state_ == State::streaming || state_ == State::draining) {
    discarded_bytes_ += bytes;
    if (discarded_bytes_ > kMaxDiscarded) return close();
    return read();
  }
  input_.append(chunk_.data(), bytes);
  parse();
}

void HttpConnection::parse() {
  if (state_ == State::waiting && !input_.empty()) {
    // From the first byte to the last: a client that sends one byte at a time gains no time by it.
    state_ = State::reading;
    arm(owner_.options().request_timeout);
  }
  while (!input_.empty()) {
    const std::size_t taken = parser_.put(input_);
    input_.erase(0, taken);
    if (taken == 0 || parser_.complete() || parser_.refusal()) break;
  }
  if (parser_.refusal()) return respond(*parser_.refusal(), AfterResponse::close);
  if (parser_.complete()) {
    after_ = parser_.keep_alive() ? AfterResponse::keep_alive : AfterResponse::close;
    request_ = parser_.take();
    request_.peer = peer_;
    attempts_ = 0;
    return answer();
  }
  if (parser_.expects_continue() && !std::exchange(told_to_continue_, true)) {
    write(std::make_shared<const std::string>("HTTP/1.1 100 Continue\r\n\r\n"));
  }
  read();
}

void HttpConnection::answer() {
  state_ = State::answering;
  const HttpResponse response = owner_.answer(request_);
  if (response.ask_again_after.count() == 0) return respond(response, after_);
  if (++attempts_ > kMaxAttempts) {
    return respond(error_response(503, "unavailable", "the answer did not come in time; ask again"), after_);
  }
  ask_again_.expires_after(response.ask_again_after);
  ask_again_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && self->state_ == State::answering) self->answer();
  });
}

void HttpConnection::respond(const HttpResponse& response, AfterResponse after) {
  state_ = State::answering;
  answered_ = true;
  after_ = after;
  const bool head = request_.method == "HEAD";
  if (response.stream && !head) {
    if (!owner_.subscribe(*this, *response.stream)) {
      return respond(error_response(503, "too_many_streams", "the agent serves no more streams; close another first"),
                     after);
    }
    state_ = State::streaming;
    write(std::make_shared<const std::string>(serialize(response, AfterResponse::close, ResponseBody::included)));
    return read();
  }
  arm(owner_.options().request_timeout);
  write(std::make_shared<const std::string>(
      serialize(response, after, head ? ResponseBody::left_out : ResponseBody::included)));
}

void HttpConnection::push(std::shared_ptr<const std::string> event) {
  if (state_ != State::streaming) return;
  if (output_bytes_ + event->size() > owner_.options().max_stream_backlog_bytes) return close();
  write(std::move(event));
}

void HttpConnection::write(std::shared_ptr<const std::string> text) {
  output_bytes_ += text->size();
  output_.push_back(std::move(text));
  if (output_.size() == 1) write_next();
}

void HttpConnection::write_next() {
  if (state_ == State::streaming) arm(owner_.options().request_timeout);
  boost::asio::async_write(socket_, boost::asio::buffer(*output_.front()),
                           [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                             if (self->state_ == State::closed) return;
                             if (error) return self->close();
                             self->on_written();
                           });
}

void HttpConnection::on_written() {
  output_bytes_ -= output_.front()->size();
  output_.pop_front();
  if (!output_.empty()) return write_next();
  if (state_ == State::streaming) {
    deadline_.cancel();
    return;
  }
  if (state_ != State::answering || !answered_) return;  // that was `100 Continue`
  if (after_ == AfterResponse::close) return drain();
  state_ = State::waiting;
  waiting_since_ = Clock::now();
  parser_ = HttpRequestParser(owner_.options().limits);
  told_to_continue_ = false;
  answered_ = false;
  request_ = {};
  arm(owner_.options().idle_timeout);
  parse();  // the next request may have come already
}

void HttpConnection::drain() {
  state_ = State::draining;
  boost::system::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  arm(kDrainTimeout);
  read();
}

void HttpConnection::arm(std::chrono::milliseconds timeout) {
  deadline_.expires_after(timeout);
  deadline_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    // It may have been armed anew while this call was already queued.
    if (error || self->state_ == State::closed || self->deadline_.expiry() > Clock::now()) return;
    self->on_timeout();
  });
}

void HttpConnection::on_timeout() {
  if (state_ != State::reading) return close();
  boost::system::error_code ignored;
  socket_.cancel(ignored);
  respond(error_response(408, "timeout", "the request did not come in time"), AfterResponse::close);
}

}  // namespace lowgear
