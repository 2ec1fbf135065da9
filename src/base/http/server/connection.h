#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/http/message/message.h"
#include "base/http/message/wire.h"
#include "base/http/server/reply.h"
#include "base/http/server/server.h"
#include "base/http/tls/socket_stream.h"

namespace lowgear::http {

class Connection;

/// The server of connections, as they use it.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  [[nodiscard]] virtual const ServerOptions& options() const = 0;
  /// Buffer to receive into, shared by all connections: its content is valid within one call.
  [[nodiscard]] virtual std::span<char> receive_buffer() = 0;
  /// Responds to the request of a client, now or later.
  virtual void handle(Request request, std::shared_ptr<Reply> reply) = 0;
  /// The response to a client that sends too many requests.
  [[nodiscard]] virtual std::optional<Response> refuse(const std::string& client) = 0;
  /// Whether connections end with the request they have begun.
  [[nodiscard]] virtual bool draining() const = 0;
  /// False: too many streams.
  [[nodiscard]] virtual bool begin_stream(Connection& connection) = 0;
  /// Tells whether the connection waits for a request.
  virtual void set_idle(Connection& connection, bool idle) = 0;
  /// The connection is closed; called once.
  virtual void closed(Connection& connection) = 0;
};

/// One client: reads a request, responds, reads the next, each within its time limit; or streams events with a bounded
/// queue. Uses its owner only until it is closed.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Clock = std::chrono::steady_clock;

  /// `stream` is over that socket.
  Connection(Socket socket, Remote remote, ConnectionOwner& owner, SocketStream stream);

  void start();
  void close();
  /// Closes the connection when it waits for a request, ends its stream, or ends it after the answer under way.
  void drain();

  /// For replies, which refer to their request by its number, so that they never answer a later one.
  [[nodiscard]] bool awaits_answer(std::uint64_t request) const;
  void answer(std::uint64_t request, const Response& response);
  [[nodiscard]] bool begin_stream(std::uint64_t request, const Response& head);
  /// False, with the callback left alone, when the connection is closed.
  [[nodiscard]] bool on_close(std::uint64_t request, std::function<void()>& callback);

  [[nodiscard]] bool streaming() const { return state_ == State::streaming && !request_.stream_ending; }
  /// Queues an event of the stream; closes a connection that has too much waiting.
  void push(std::shared_ptr<const std::string> event);
  /// Closes the connection once all events are sent.
  void end_stream();
  /// The same at the handler's wish, without calling it back.
  void drop_stream();

 private:
  enum class State : unsigned char {
    handshaking,  ///< of TLS, within the time of a request
    waiting,      ///< for the first byte of a request
    reading,      ///< a request
    handling,     ///< until there is an answer
    answering,    ///< until the answer is written
    streaming,
    lingering,  ///< everything is written; discards late input, so that no reset destroys the answer
    closed,
  };

  struct Deadline {
    /// Set to the deadline at first, and then only when it fires or has to fire earlier: most deadlines never pass.
    boost::asio::steady_timer timer;
    Clock::time_point at = Clock::time_point::max();
    Clock::time_point timer_at = Clock::time_point::max();
  };
  /// Received from the client.
  struct Input {
    std::string text;
    bool is_awaited = false;
    bool has_ended = false;
    std::size_t discarded_bytes = 0;
    std::unique_ptr<RequestParser> parser;  ///< of the request that is being read
    bool told_to_continue = false;
  };
  /// The latest request.
  struct Request {
    std::uint64_t number = 0;
    bool head_only = false;  ///< it asks with HEAD
    std::string text = {};   ///< for the log; empty unless it is for debugging
    AfterResponse after = AfterResponse::close;
    std::function<void()> on_close;
    bool stream_ending = false;
  };
  /// To be sent to the client.
  struct Output {
    std::deque<std::shared_ptr<const std::string>> texts;
    std::size_t bytes = 0;          ///< unsent bytes of the texts
    std::size_t written_bytes = 0;  ///< of the first
    bool awaits_room = false;       ///< in the socket
  };

  void await_first_request();
  void handshake();
  void on_failed_handshake();
  void wait_for_input();
  void receive();
  void on_end_of_input();
  void parse();
  void dispatch();
  void respond(const Response& response, AfterResponse after);
  void write(std::shared_ptr<const std::string> text);
  void flush();
  [[nodiscard]] StreamStep write_pieces();
  void consume(std::size_t bytes);
  void on_flushed();
  void await_next_request();
  void linger();

  void arm(Clock::duration timeout);
  void disarm();
  void schedule_timer();
  void on_timeout();

  Socket socket_;
  SocketStream stream_;
  Remote remote_;
  ConnectionOwner& owner_;
  State state_ = State::waiting;

  Deadline deadline_;
  Input input_;
  Request request_;
  Output output_;
};

}  // namespace lowgear::http
