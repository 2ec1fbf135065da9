#include "base/http/message/wire.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string_type.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <iterator>
#include <utility>

#include "base/http/message/error.h"

namespace lowgear::http {
namespace {

namespace http = boost::beast::http;

std::string_view to_std(boost::beast::string_view text) { return {text.data(), text.size()}; }

/// Beast's headers as Headers. What stands in several headers of one name is one list (RFC 9110, 5.2): none of them
/// hides another one.
Headers to_headers(const boost::beast::http::fields& fields) {
  Headers headers;
  for (const auto& field : fields) {
    std::string name(to_std(field.name_string()));
    std::ranges::transform(name, name.begin(), [](char letter) {
      return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    const auto [known, is_new] = headers.try_emplace(std::move(name), to_std(field.value()));
    if (!is_new) known->second.append(", ").append(to_std(field.value()));
  }
  return headers;
}

Response refusal_of(const boost::system::error_code& error, const Limits& limits) {
  if (error == http::error::header_limit) {
    return error_response(ErrorCode::headers_too_large,
                          fmt::format("the request's headers are larger than {} bytes", limits.header_bytes));
  }
  if (error == http::error::body_limit) {
    return error_response(ErrorCode::body_too_large,
                          fmt::format("the request's body is larger than {} bytes", limits.body_bytes));
  }
  return error_response(ErrorCode::bad_request, fmt::format("this is not an HTTP/1.1 request: {}", error.message()));
}

/// Headers that decide who is answered and what is read. Of two with one name, a proxy may go by one and we by the
/// other.
constexpr std::array<http::field, 6> kSingleFields = {http::field::host,           http::field::authorization,
                                                      http::field::origin,         http::field::content_type,
                                                      http::field::content_length, http::field::expect};

/// The name of a header that may come once and came twice; empty when there is none.
std::string_view repeated_field(const http::fields& fields) {
  const auto* const repeated =
      std::ranges::find_if(kSingleFields, [&](http::field field) { return fields.count(field) > 1; });
  return repeated == kSingleFields.end() ? std::string_view() : to_std(http::to_string(*repeated));
}

/// So that no value of a header ends it.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](char letter) { return letter == '\r' || letter == '\n' || letter == '\0'; }, ' ');
  return line;
}

/// RFC 9110: an answer with one of these has no body, whatever its headers say.
bool has_no_body(int status) { return status == 204 || status == 304; }

}  // namespace

RequestParser::RequestParser(Limits limits) : limits_(limits) {
  parser_.eager(false);  // stops after the headers, which decide whether the body is read at all
  parser_.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  parser_.body_limit(limits.body_bytes);
}

std::size_t RequestParser::put(std::string_view bytes) {
  if (bytes.empty() || complete() || refusal_) return 0;
  boost::system::error_code error;
  const std::size_t taken = parser_.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error == http::error::need_more) return taken;
  if (error) {
    refusal_ = refusal_of(error, limits_);
  } else if (parser_.is_header_done() && parser_.get().count(http::field::transfer_encoding) > 0) {
    // Beast 1.74 asserts on a chunk's header that comes in pieces, and bodies here are short. Of a body in another
    // encoding it would not know where it ends.
    refusal_ = error_response(ErrorCode::length_required, "send the body with Content-Length, not chunked");
  } else if (const std::string_view name = repeated_field(parser_.get()); !name.empty()) {
    refusal_ =
        error_response(ErrorCode::bad_request, fmt::format("the header {} occurs more than once; send it once", name));
  }
  return taken;
}

bool RequestParser::complete() const { return !refusal_ && parser_.is_done(); }

bool RequestParser::expects_continue() const {
  if (!parser_.is_header_done() || complete() || refusal_) return false;
  return boost::beast::iequals(parser_.get()[http::field::expect], "100-continue");
}

bool RequestParser::keep_alive() const { return !refusal_ && parser_.get().keep_alive(); }

Request RequestParser::take() {
  auto message = parser_.release();
  std::string_view target = to_std(message.target());
  // The absolute form, as proxies send it.
  if (const std::size_t scheme = target.find("://"); scheme != std::string_view::npos && !target.starts_with('/')) {
    const std::size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
  }
  Request request;
  request.method = to_std(message.method_string());
  request.version = static_cast<int>(message.version());
  const std::size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string_view::npos) request.query = target.substr(question + 1);
  request.headers = to_headers(message);
  request.body = std::move(message.body());
  return request;
}

std::string serialize_head(const Response& response, AfterResponse after, ResponseLength length) {
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nServer: lowgear\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", response.status,
                  to_std(http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)))),
                  fmt::gmtime(std::time(nullptr)));
  const auto add = [&text](std::string_view name, std::string_view value) {
    fmt::format_to(std::back_inserter(text), "{}: {}\r\n", name, value);
  };
  bool says_caching = false;
  for (const auto& [name, value] : response.headers) {
    add(one_line(name), one_line(value));
    says_caching = says_caching || boost::beast::iequals(name, "Cache-Control");
  }
  if (length == ResponseLength::until_the_end) {
    add("Content-Type", "text/event-stream");
  } else if (!has_no_body(response.status)) {
    if (!response.text().empty()) add("Content-Type", one_line(response.content_type));
    add("Content-Length", std::to_string(response.text().size()));
  }
  if (!says_caching) add("Cache-Control", "no-store");
  const bool stays = after == AfterResponse::keep_alive && length == ResponseLength::known;
  add("Connection", stays ? "keep-alive" : "close");
  return text + "\r\n";
}

namespace {

constexpr unsigned kSwitchingProtocols = 101;
constexpr unsigned kFirstFinalStatus = 200;

std::string problem_of(const boost::system::error_code& error, const Limits& limits) {
  if (error == http::error::header_limit) {
    return "its response has more than " + std::to_string(limits.header_bytes) + " bytes of headers";
  }
  if (error == http::error::body_limit)
    return "its response is larger than " + std::to_string(limits.body_bytes) + " bytes";
  return "its response is not HTTP/1.1: " + error.message();
}

/// A stream of Beast's over a function.
class ReceivingStream {
 public:
  explicit ReceivingStream(const ReceiveBytes& receive) : receive_(receive) {}

  template <typename Buffers>
  std::size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
    const boost::asio::mutable_buffer room = *boost::asio::buffer_sequence_begin(buffers);
    const std::optional<std::size_t> bytes = receive_({static_cast<char*>(room.data()), room.size()});
    error = {};
    if (!bytes) error = boost::asio::error::connection_reset;
    if (bytes == 0U) error = boost::asio::error::eof;
    return bytes.value_or(0);
  }
  /// Beast wants one that throws, too.
  template <typename Buffers>
  std::size_t read_some(const Buffers& buffers) {
    boost::system::error_code error;
    const std::size_t bytes = read_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return bytes;
  }

 private:
  const ReceiveBytes& receive_;
};

bool has_ended(const boost::system::error_code& error) {
  return error == http::error::end_of_stream || error == http::error::partial_message ||
         error == boost::asio::error::connection_reset;
}

}  // namespace

ReceivedResponse read_response(const ReceiveBytes& receive, const Limits& limits, ResponseBody body) {
  constexpr std::size_t kReceiveBytes = std::size_t{16} * 1024;
  ReceivingStream stream(receive);
  boost::beast::flat_buffer buffer;
  buffer.reserve(kReceiveBytes);
  while (true) {
    http::response_parser<http::string_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    parser.body_limit(limits.body_bytes);
    parser.skip(body == ResponseBody::none);
    boost::system::error_code error;
    http::read_header(stream, buffer, parser, error);
    const unsigned status = error ? 0 : parser.get().result_int();
    if (status == kSwitchingProtocols) return {.reply = {}, .problem = "it switches to another protocol"};
    if (!error && parser.get().count(http::field::transfer_encoding) > 0) {
      // Beast 1.74 asserts on a chunk's header that comes in pieces.
      return {.reply = {}, .problem = "its response is chunked, or has another encoding"};
    }
    if (!error && status < kFirstFinalStatus) continue;
    if (!error && !parser.is_done()) http::read(stream, buffer, parser, error);
    if (has_ended(error)) return {};
    if (error) return {.reply = {}, .problem = problem_of(error, limits)};
    const bool keep_alive = buffer.size() == 0 && parser.keep_alive() && !parser.need_eof();
    auto message = parser.release();
    return {.reply = ReplyText{.status = static_cast<int>(message.result_int()),
                               .headers = to_headers(message),
                               .body = std::move(message.body())},
            .problem = {},
            .keep_alive = keep_alive};
  }
}

}  // namespace lowgear::http
