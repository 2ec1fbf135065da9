#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/http/message/message.h"

namespace lowgear::http {

/// A stream of server-sent events to one client. Dropping the last reference ends the stream, once all pushed events
/// are sent.
class EventStream {
 public:
  virtual ~EventStream() = default;
  /// Queues a whole event (`event: ...\ndata: ...\n\n`), which all its clients share. Closes a client that reads too
  /// slowly; never waits.
  virtual void push(std::shared_ptr<const std::string> event) = 0;
  [[nodiscard]] virtual bool closed() const = 0;
};

/// The reply to one request: sent at once, or later from the thread that runs the server, where references to it must
/// also be dropped. If the last reference is dropped without a response, the client gets 500. May outlive the server,
/// and then does nothing.
class Reply {
 public:
  virtual ~Reply() = default;
  /// Only the first response is sent; one to a client that has disconnected is dropped.
  virtual void send(Response response) = 0;
  /// Begins a stream of server-sent events as the answer, with the head's headers, and its body as the first events;
  /// its content type is `text/event-stream`. Null when there are too many streams (503 is sent), the client has gone,
  /// or it asked with HEAD (the head is sent).
  [[nodiscard]] virtual std::shared_ptr<EventStream> stream(Response head) = 0;
  /// The client has disconnected or has its response: work for it may be dropped. An open stream counts as a response.
  [[nodiscard]] virtual bool closed() const = 0;
  /// Called once when the client disconnects before its response, or when its stream ends other than by being dropped;
  /// at once if the client has already disconnected. A client that closes its side counts as disconnected. A later
  /// callback replaces an earlier one.
  virtual void on_close(std::function<void()> callback) = 0;
};

/// Handles the server's requests. All calls come from the thread that runs the server.
class Handler {
 public:
  virtual ~Handler() = default;
  /// Never throws. `reply` may be kept.
  virtual void handle(Request request, std::shared_ptr<Reply> reply) = 0;
};

}  // namespace lowgear::http
