#include "base/http/client/response_parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "base/http/message/field_map.h"

namespace lowgear::http {
namespace {

namespace http = boost::beast::http;

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

}  // namespace

struct ResponseParser::State {
  State(const Limits& limits, ResponseBody body) {
    parser.eager(false);  // stops after the headers
    parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    parser.body_limit(limits.body_bytes);
    parser.skip(body == ResponseBody::none);
  }
  http::response_parser<http::string_body> parser;
};

ResponseParser::ResponseParser(Limits limits, ResponseBody body)
    : limits_(limits), body_(body), state_(std::make_unique<State>(limits, body)) {}
ResponseParser::~ResponseParser() = default;
ResponseParser::ResponseParser(ResponseParser&&) noexcept = default;
ResponseParser& ResponseParser::operator=(ResponseParser&&) noexcept = default;

void ResponseParser::put(std::string_view bytes) {
  waiting_ += bytes;
  parse();
}

void ResponseParser::parse() {
  while (!waiting_.empty() && !complete() && !problem_) {
    boost::system::error_code error;
    const std::size_t taken = state_->parser.put(boost::asio::buffer(waiting_), error);
    waiting_.erase(0, taken);
    if (error && error != http::error::need_more) {
      problem_ = problem_of(error, limits_);
      return;
    }
    if (!state_->parser.is_header_done()) {
      if (taken == 0) return;
      continue;
    }
    const unsigned status = state_->parser.get().result_int();
    if (status == kSwitchingProtocols) {
      problem_ = "it switches to another protocol";
      return;
    }
    if (state_->parser.get().count(http::field::transfer_encoding) > 0) {
      // Beast 1.74 asserts on a chunk's header that comes in pieces.
      problem_ = "its response is chunked, or has another encoding";
      return;
    }
    if (status < kFirstFinalStatus) {
      state_ = std::make_unique<State>(limits_, body_);
    } else if (taken == 0) {
      return;
    }
  }
}

void ResponseParser::end() {
  if (complete() || problem_ || !state_->parser.is_header_done()) return;
  boost::system::error_code error;
  state_->parser.put_eof(error);  // an error: it has a length, which was not reached
}

bool ResponseParser::complete() const { return !problem_ && state_->parser.is_done(); }

bool ResponseParser::keep_alive() const {
  return complete() && waiting_.empty() && state_->parser.get().keep_alive() && !state_->parser.need_eof();
}

ReplyText ResponseParser::take() {
  auto message = state_->parser.release();
  ReplyText reply;
  reply.status = static_cast<int>(message.result_int());
  reply.headers = to_headers(message);
  reply.body = std::move(message.body());
  return reply;
}

}  // namespace lowgear::http
