#include "base/http/client/client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/user_database.h"
#include "base/core/log.h"
#include "base/http/message/wire.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::http {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = ClientError::Kind;

std::string reason(int error) { return std::generic_category().message(error); }

struct AddressListDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, AddressListDeleter>;

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           kMarks.find(letter) != std::string_view::npos;
  });
}

bool is_target(std::string_view target) {
  return target.starts_with('/') &&
         std::ranges::all_of(target, [](char letter) { return letter > ' ' && letter != '\x7f'; });
}

bool is_waiting(StreamStatus status) {
  return status == StreamStatus::wants_read || status == StreamStatus::wants_write;
}

bool is_header_value(std::string_view value) { return value.find_first_of({"\r\n\0", 3}) == std::string_view::npos; }

std::string host_header(const Endpoint& endpoint) {
  if (!endpoint.unix_path.empty()) return "localhost";
  const std::string text = endpoint.text();
  return text.substr(text.find("//") + 2);
}

/// Request line and headers; throws InputError when one of them would be something else to the server.
std::string request_head(const Endpoint& endpoint, std::string_view method, std::string_view target,
                         std::size_t body_bytes, const Client::HeaderList& headers) {
  if (!is_token(method)) throw InputError(quote(method) + " is not an HTTP method");
  if (!is_target(target)) {
    throw InputError(quote(target) +
                     " is not a request target: expected one that starts with / and is percent-encoded");
  }
  std::string head(method);
  head.append(" ").append(target).append(" HTTP/1.1\r\nHost: ").append(host_header(endpoint)).append("\r\n");
  for (const auto& [name, value] : headers) {
    if (!is_token(name) || !is_header_value(value))
      throw InputError(quote(name) + ": the name or the value of this header is not valid");
    head.append(name).append(": ").append(value).append("\r\n");
  }
  if (body_bytes > 0 || (method != "GET" && method != "HEAD")) {
    head.append("Content-Length: ").append(std::to_string(body_bytes)).append("\r\n");
  }
  return head + "\r\n";
}

}  // namespace

/// One request and its answer.
class Client::Exchange {
 public:
  Exchange(Client& client, Clock::time_point deadline) : client_(client), deadline_(deadline) {}

  ReplyText run(std::string_view head, std::string_view body, ResponseBody answer) {
    check_cancelled();
    // One on which something came unasked, or which ended, is of no more use.
    if (client_.connection_ && something_came()) disconnect();
    const bool kept = static_cast<bool>(client_.connection_);
    const bool repeatable = head.starts_with("GET ") || head.starts_with("HEAD ");
    if (!kept) connect();
    std::optional<ReplyText> reply = attempt(head, body, answer);
    if (!reply && kept && (repeatable || sent_ == 0)) {
      connect();
      reply = attempt(head, body, answer);
    }
    if (!reply)
      fail(Kind::disconnected, received_ == 0 ? "it closed the connection without a response"
                                              : "it closed the connection in the middle of its response");
    return std::move(*reply);
  }

 private:
  void disconnect() {
    client_.stream_.reset();
    client_.connection_.reset();
  }

  [[noreturn]] void fail(Kind kind, const std::string& what) {
    disconnect();
    throw ClientError(kind, client_.endpoint_.text() + ": " + what);
  }

  void check_cancelled() {
    pollfd cancelled{.fd = client_.cancelled_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&cancelled, 1, 0) > 0) fail(Kind::cancelled, "the request was cancelled");
  }

  [[nodiscard]] bool something_came() const {
    pollfd waiting{.fd = client_.connection_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, 0) != 0;
  }

  /// Waits until the connection can be read or written.
  void await(short events, Clock::time_point until, Kind kind_when_late, const char* late) {
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0) fail(kind_when_late, late);
      std::array<pollfd, 2> waiting{pollfd{.fd = client_.connection_.get(), .events = events, .revents = 0},
                                    pollfd{.fd = client_.cancelled_.get(), .events = POLLIN, .revents = 0}};
      constexpr std::int64_t kMinute = 60'000;
      const int ready = ::poll(waiting.data(), waiting.size(), static_cast<int>(std::min(left, kMinute)));
      if (ready < 0 && errno != EINTR) fail(Kind::disconnected, reason(errno));
      if (ready <= 0) continue;
      if (waiting[1].revents != 0) fail(Kind::cancelled, "the request was cancelled");
      return;
    }
  }

  void connect() {
    disconnect();
    sent_ = received_ = 0;
    const Clock::time_point until = std::min(deadline_, Clock::now() + client_.options_.connect_timeout);
    if (!client_.endpoint_.unix_path.empty()) {
      const ipc::UnixAddress address = ipc::UnixAddress::of_path(client_.endpoint_.unix_path);
      if (const int error = connect_to(AF_UNIX, address.get(), address.size(), until)) {
        fail(Kind::unreachable, "cannot be reached: " + reason(error));
      }
      return;
    }
    const AddressList addresses = look_up();
    int error = EHOSTUNREACH;
    for (const addrinfo* each = addresses.get(); each != nullptr && !client_.connection_; each = each->ai_next) {
      error = connect_to(each->ai_family, each->ai_addr, each->ai_addrlen, until);
    }
    if (!client_.connection_) fail(Kind::unreachable, "cannot be reached: " + reason(error));
    const int enabled = 1;
    ::setsockopt(client_.connection_.get(), IPPROTO_TCP, TCP_NODELAY, &enabled, sizeof(enabled));
    shake_hands(until);
  }

  void shake_hands(Clock::time_point until) {
    while (true) {
      const StreamStep step = client_.stream_->handshake();
      if (step.status == StreamStatus::done) return;
      if (!is_waiting(step.status)) {
        const std::string why = client_.stream_->problem();
        fail(Kind::untrusted, "TLS failed: " + (why.empty() ? "it closed the connection" : why));
      }
      await(step.status, until, Kind::unreachable, "cannot be reached: it does not speak TLS in time");
    }
  }

  void await(StreamStatus wanted, Clock::time_point until, Kind kind_when_late, const char* late) {
    await(wanted == StreamStatus::wants_read ? short{POLLIN} : short{POLLOUT}, until, kind_when_late, late);
  }

  AddressList look_up() {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* list = nullptr;
    const Endpoint& endpoint = client_.endpoint_;
    const int error = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
    if (error != 0) {
      fail(Kind::unreachable,
           "the host is not known: " + (error == EAI_SYSTEM ? reason(errno) : std::string(::gai_strerror(error))));
    }
    return AddressList(list);
  }

  /// 0, or why not.
  int connect_to(int family, const sockaddr* address, socklen_t size, Clock::time_point until) {
    FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return errno;
    client_.connection_ = std::move(socket);
    int error = ::connect(client_.connection_.get(), address, size) == 0 ? 0 : errno;
    if (error == EINPROGRESS || error == EINTR) {
      await(POLLOUT, until, Kind::unreachable, "cannot be reached: it does not respond");
      socklen_t length = sizeof(error);
      if (::getsockopt(client_.connection_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    }
    if (error != 0) {
      disconnect();
    } else {
      const int descriptor = client_.connection_.get();
      client_.stream_ =
          client_.tls_side_ ? client_.tls_side_->stream(descriptor, client_.endpoint_.host) : SocketStream(descriptor);
    }
    return error;
  }

  /// Empty when the connection ended before the answer did.
  std::optional<ReplyText> attempt(std::string_view head, std::string_view body, ResponseBody answer) {
    send(head, body);
    ReceivedResponse response =
        read_response([this](std::span<char> room) { return receive(room); }, client_.options_.limits, answer);
    if (!response.problem.empty()) fail(Kind::malformed, response.problem);
    if (!response.keep_alive) disconnect();
    return std::move(response.reply);
  }

  /// Sends all, or what the server takes: it may answer, with a refusal, before it has read the rest.
  void send(std::string_view head, std::string_view body) {
    while (!head.empty() || !body.empty()) {
      const std::array<iovec, 2> pieces{iovec{.iov_base = const_cast<char*>(head.data()), .iov_len = head.size()},
                                        iovec{.iov_base = const_cast<char*>(body.data()), .iov_len = body.size()}};
      const StreamStep step = client_.stream_->write(pieces);
      if (is_waiting(step.status)) {
        await(step.status, deadline_, Kind::timed_out, "it did not accept the request in time");
        continue;
      }
      if (step.status != StreamStatus::done) return;
      sent_ += step.bytes;
      const std::size_t of_head = std::min(step.bytes, head.size());
      head.remove_prefix(of_head);
      body.remove_prefix(step.bytes - of_head);
    }
  }

  /// 0 at the end of the connection; empty when it failed: a response without a length may have been cut off.
  std::optional<std::size_t> receive(std::span<char> room) {
    while (true) {
      const StreamStep step = client_.stream_->read(room);
      if (is_waiting(step.status)) {
        await(step.status, deadline_, Kind::timed_out, "it did not respond in time");
        continue;
      }
      received_ += step.bytes;
      if (step.status == StreamStatus::failed) return std::nullopt;
      return step.bytes;
    }
  }

  Client& client_;
  Clock::time_point deadline_;
  std::size_t sent_ = 0;      ///< over this connection
  std::size_t received_ = 0;  ///< over this connection
};

Client::Client(Endpoint endpoint, ClientOptions options)
    : endpoint_(std::move(endpoint)),
      options_(std::move(options)),
      cancelled_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      tls_side_(endpoint_.tls ? std::make_shared<TlsClientSide>(options_.tls) : nullptr) {
  if (!cancelled_) throw Error(endpoint_.text() + ": no client can be made: " + reason(errno));
}

ReplyText Client::request(std::string_view method, std::string_view target, std::string_view body,
                          const HeaderList& headers, std::chrono::milliseconds timeout) {
  constexpr std::chrono::hours kLongest{24 * 365};  // so that no time is too long to be counted
  const Clock::time_point deadline = Clock::now() + std::min<std::chrono::milliseconds>(timeout, kLongest);
  const std::string head = request_head(endpoint_, method, target, body.size(), headers);
  const ResponseBody expected = method == "HEAD" ? ResponseBody::none : ResponseBody::expected;
  if (!logs_debug()) return Exchange(*this, deadline).run(head, body, expected);
  const std::string what = fmt::format("{} {}{}", method, endpoint_.text(), target.substr(0, target.find('?')));
  try {
    ReplyText reply = Exchange(*this, deadline).run(head, body, expected);
    log_debug(fmt::format("{}: {}", what, reply.status));
    return reply;
  } catch (const ClientError& error) {
    log_debug(fmt::format("{}: {}", what, error.what()));
    throw;
  }
}

void Client::cancel() noexcept {
  const std::uint64_t one = 1;
  // Fails only when it has been cancelled 2^64 times.
  [[maybe_unused]] const ssize_t written = ::write(cancelled_.get(), &one, sizeof(one));
}

namespace {

constexpr std::size_t kMaxTokenBytes = 4'096;

}  // namespace

std::filesystem::path token_file_from_environment(const Environment& environment, const std::filesystem::path& named) {
  return named.empty() ? std::filesystem::path(environment("LOWGEAR_SERVER_TOKEN_FILE").value_or("")) : named;
}

namespace {

std::string read_token_file(const std::filesystem::path& file) {
  try {
    return read_file(file, kMaxTokenBytes);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}; expected a file that holds the token, not the token itself", error.what()));
  }
}

}  // namespace

Client::HeaderList token_headers(const std::filesystem::path& file) {
  if (file.empty()) return {};
  std::string token = read_token_file(file);
  token.erase(std::find_if(token.rbegin(), token.rend(), [](char c) { return c > ' '; }).base(), token.end());
  const bool is_word = std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7f; });
  if (!token.empty() && is_word) return {{"Authorization", "Bearer " + token}};
  throw InputError(
      fmt::format("{}: {}; expected one word, the token alone; lines SCOPES TOKEN are for lowgear serve --token-file",
                  printable(file.string()), token.empty() ? "contains no token" : "contains more than a token"));
}

std::optional<std::string> token_exposure(const std::filesystem::path& file) {
  const auto exposure = exposure_of(file);
  if (!exposure) return std::nullopt;
  return fmt::format("{}: {}", printable(file.string()), *exposure);
}

}  // namespace lowgear::http
