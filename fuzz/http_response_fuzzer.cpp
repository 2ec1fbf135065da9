/// What a server answers: whatever bytes come, cut into pieces anyhow, they end in a response within the limits, in a
/// problem that is said in one line, or in waiting for more; a response is the same however it was cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/http/message/wire.h"

namespace {

using namespace lowgear;

constexpr http::Limits kLimits{.header_bytes = 256, .body_bytes = 128};

/// Empty when there is no response in it.
std::optional<http::ReplyText> parse(std::string_view bytes, std::size_t piece, http::ResponseBody body) {
  const auto receive = [&](std::span<char> room) -> std::optional<std::size_t> {
    const std::size_t count = bytes.copy(room.data(), std::min(piece, room.size()));
    bytes.remove_prefix(count);
    return count;
  };
  const http::ReceivedResponse response = http::read_response(receive, kLimits, body);
  if (!response.reply) {
    if (response.keep_alive || response.problem.find('\n') != std::string::npos) std::abort();
    return std::nullopt;
  }
  const http::ReplyText& reply = *response.reply;
  if (reply.body.size() > kLimits.body_bytes || reply.status < 200) std::abort();
  for (const auto& [name, value] : reply.headers) {
    if (name.size() + value.size() > kLimits.header_bytes) std::abort();
  }
  return reply;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t piece = data[0] == 0 ? size : data[0];
  const http::ResponseBody body = data[1] % 2 == 0 ? http::ResponseBody::expected : http::ResponseBody::none;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::optional<http::ReplyText> cut = parse(bytes, piece, body);
  const std::optional<http::ReplyText> whole = parse(bytes, bytes.size() + 1, body);
  // Within some bytes of the limit on headers, one that came in pieces may be refused where the whole is not.
  if (cut && whole && (cut->status != whole->status || cut->body != whole->body || cut->headers != whole->headers))
    std::abort();
  return 0;
}
