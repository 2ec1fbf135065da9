#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/http/message/endpoint.h"
#include "base/http/message/message.h"

namespace lowgear::http {

/// No answer came. The message names the server.
class ClientError : public Error {
 public:
  enum class Kind : unsigned char {
    unreachable,   ///< no connection, or the name is not known: the request was not sent
    disconnected,  ///< the connection ended before the answer did; whether the request was seen is not known
    timed_out,     ///< whether the request was seen is not known
    malformed,     ///< what came is no answer of HTTP/1.1, or too large, or in chunks, which this client does not read
    cancelled,     ///< by `cancel`
  };
  ClientError(Kind kind, const std::string& message) : Error(message), kind_(kind) {}
  [[nodiscard]] Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{5'000};
  Limits limits{.header_bytes = std::size_t{16} << 10U, .body_bytes = std::size_t{64} << 20U};  ///< of an answer
};

struct ReplyText {
  int status = 0;
  Headers headers;
  std::string body;
};

/// Asks an HTTP/1.1 server and waits for the answer; the connection is kept for the next request. One thread at a time
/// may ask; any thread may cancel.
class Client {
 public:
  using HeaderList = std::vector<std::pair<std::string, std::string>>;

  /// Connects with the first request. Throws Error when the system has no more file descriptors.
  explicit Client(Endpoint endpoint, ClientOptions options = {});

  /// Any status is an answer. Throws InputError for a method, target or header that cannot stand in a request, and
  /// ClientError when no answer comes within `timeout`, which counts from the call. A kept connection that the
  /// server has closed meanwhile is replaced; a request other than GET or HEAD is sent again only when none of it was
  /// sent before. Looking up a host's name is not bounded by `timeout`, nor ended by `cancel`.
  [[nodiscard]] ReplyText request(std::string_view method, std::string_view target, std::string_view body = {},
                                  const HeaderList& headers = {},
                                  std::chrono::milliseconds timeout = std::chrono::seconds(30));

  /// Ends the request under way in another thread at once, and every later one: the client is of no more use. From any
  /// thread, and from a signal handler.
  void cancel() noexcept;

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

 private:
  class Exchange;

  Endpoint endpoint_;
  ClientOptions options_;
  FileDescriptor cancelled_;  ///< an eventfd, readable once cancelled
  FileDescriptor connection_;
};

}  // namespace lowgear::http
