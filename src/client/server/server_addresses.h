#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/http/message/message.h"

namespace lowgear::client {

/// Parts of a list of addresses, unchecked: at commas that another address follows, as the path of a socket may hold
/// commas. They refer to `text`.
[[nodiscard]] std::vector<std::string_view> split_server_addresses(std::string_view text);

/// The addresses at which a job's server may be found: one, or several with commas between them, when it may move from
/// one machine to another (`http://a:7787,http://b:7787`). Throws InputError for anything else.
[[nodiscard]] std::vector<http::Endpoint> parse_server_addresses(std::string_view text);

/// The list with absolute paths of sockets, for a process that works in another folder. Otherwise unchecked.
[[nodiscard]] std::string absolute_server_addresses(std::string_view text);

}  // namespace lowgear::client
