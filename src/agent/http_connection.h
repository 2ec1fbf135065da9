#pragma once

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "agent/http_message.h"
#include "agent/http_server.h"
#include "agent/http_wire.h"

namespace lowgear {

class HttpConnection;

/// What a connection needs of its server.
class HttpConnectionOwner {
 public:
  virtual ~HttpConnectionOwner() = default;
  [[nodiscard]] virtual const HttpServerOptions& options() const = 0;
  [[nodiscard]] virtual HttpResponse answer(const HttpRequest& request) = 0;
  /// Sends the connection events from now on; false when there are too many streams.
  [[nodiscard]] virtual bool subscribe(HttpConnection& connection, const PowerStream& stream) = 0;
  /// The connection is closed; called once.
  virtual void closed(HttpConnection& connection) = 0;
};

/// One client: reads a request, answers, reads the next, each within its time; or streams events, of which only so many
/// may wait. Touches its owner only until it is closed.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Clock = std::chrono::steady_clock;

  HttpConnection(Socket socket, std::optional<Peer> peer, HttpConnectionOwner& owner);

  void start();
  void close();
  /// Queues an event of the stream; closes a connection that has too much waiting.
  void push(std::shared_ptr<const std::string> event);

  [[nodiscard]] const std::optional<Peer>& peer() const { return peer_; }
  /// Since when the connection has waited for a request; empty while it serves one.
  [[nodiscard]] std::optional<Clock::time_point> idle_since() const;

 private:
  enum class State : unsigned char {
    waiting,    ///< for the first byte of a request
    reading,    ///< a request
    answering,  ///< until its answer is written
    streaming,
    draining,  ///< all is written; reads what still comes, so that a reset does not take the answer with it
    closed,
  };

  void read();
  void on_read(std::size_t bytes);
  void parse();
  void answer();
  void respond(const HttpResponse& response, AfterResponse after);
  void write(std::shared_ptr<const std::string> text);
  void write_next();
  void on_written();
  void drain();
  void arm(std::chrono::milliseconds timeout);
  void on_timeout();

  Socket socket_;
  std::optional<Peer> peer_;
  HttpConnectionOwner& owner_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer ask_again_;
  State state_ = State::waiting;
  Clock::time_point waiting_since_ = Clock::now();
  std::array<char, 4096> chunk_{};
  std::string input_;
  HttpRequestParser parser_;
  bool told_to_continue_ = false;
  HttpRequest request_;
  int attempts_ = 0;       ///< at answering this request
  bool answered_ = false;  ///< the answer is on its way
  AfterResponse after_ = AfterResponse::close;
  std::deque<std::shared_ptr<const std::string>> output_;  ///< the first is being written
  std::size_t output_bytes_ = 0;
  std::size_t discarded_bytes_ = 0;
};

}  // namespace lowgear
