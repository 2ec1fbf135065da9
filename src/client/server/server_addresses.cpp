#include "client/server/server_addresses.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>

#include "base/core/error.h"

namespace lowgear::client {
namespace {

constexpr std::size_t kMaxAddresses = 16;

/// Where the first address ends.
std::size_t end_of_first(std::string_view text) {
  static constexpr std::array<std::string_view, 3> kBegins = {"http://", "https://", "unix:"};
  for (std::size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',', comma + 1)) {
    const std::string_view rest = text.substr(comma + 1);
    if (std::ranges::any_of(kBegins, [&](std::string_view begin) { return rest.starts_with(begin); })) return comma;
  }
  return text.size();
}

}  // namespace

std::vector<std::string_view> split_server_addresses(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = end_of_first(text);
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<http::Endpoint> parse_server_addresses(std::string_view text) {
  const std::vector<std::string_view> parts = split_server_addresses(text);
  if (parts.size() > kMaxAddresses) throw InputError("a server has at most 16 addresses; leave some out");
  std::vector<http::Endpoint> addresses;
  for (const std::string_view part : parts) addresses.push_back(http::Endpoint::parse(part));
  return addresses;
}

std::string absolute_server_addresses(std::string_view text) {
  constexpr std::string_view kUnix = "unix:";
  std::string absolute;
  for (const std::string_view address : split_server_addresses(text)) {
    if (!absolute.empty()) absolute += ',';
    // An address without a path stays as it is, and is refused as such.
    const bool is_socket = address.starts_with(kUnix) && address.size() > kUnix.size();
    absolute += is_socket ? std::string(kUnix) + std::filesystem::absolute(address.substr(kUnix.size())).string()
                          : std::string(address);
  }
  return absolute;
}

}  // namespace lowgear::client
