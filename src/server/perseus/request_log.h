#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/http/message/message.h"
#include "base/http/server/reply.h"

namespace lowgear::server::perseus {

/// `reply`, which also hands a line with the request and its response to `log`, once that is sent: what Perseus' server
/// logs at the level DEBUG. Long bodies are cut. `log` is called on the server's thread.
[[nodiscard]] std::shared_ptr<http::Reply> logged(const http::Request& request, std::shared_ptr<http::Reply> reply,
                                                  std::function<void(const std::string&)> log);

}  // namespace lowgear::server::perseus
