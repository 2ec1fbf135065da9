#include "base/http/message/host.h"

#include <algorithm>
#include <array>

namespace lowgear::http {
namespace {

constexpr std::array<std::string_view, 3> kLoopbackNames = {"localhost", "127.0.0.1", "[::1]"};

bool is_same_name(std::string_view left, std::string_view right) {
  const auto lower = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  };
  return std::ranges::equal(left, right, {}, lower, lower);
}

bool is_port(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) { return letter >= '0' && letter <= '9'; });
}

}  // namespace

bool names_loopback(std::string_view host) {
  const std::size_t bracket = host.find(']');
  const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos && !is_port(host.substr(colon + 1))) return false;
  const std::string_view name = host.substr(0, colon);
  return std::ranges::any_of(kLoopbackNames, [&](std::string_view known) { return is_same_name(name, known); });
}

}  // namespace lowgear::http
