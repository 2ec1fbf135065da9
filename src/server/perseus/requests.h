#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/http/message/message.h"
#include "base/http/server/reply.h"

namespace lowgear::server::perseus {

/// Throws HttpError unless a program has sent the request, or a person who opens `/info`. The port knows no tokens, so
/// it must not answer a browser that acts for the web page of a stranger: refused are requests that name an `Origin`
/// or, by `Sec-Fetch-Site`, come from another site (403), bodies whose Content-Type is not
/// JSON, such as those that browsers send without a preflight (415), and, when `loopback_only`, a `Host` that does not
/// name the loopback interface: the name of a web page that its owner has made to point at this machine (403).
void refuse_browsers(const http::Request& request, bool loopback_only);

/// Wraps `reply` so that `log` receives a line with the request and its response once that is sent, as Perseus' server
/// logs at the level DEBUG. Long bodies are cut. `log` is called on the server's thread.
[[nodiscard]] std::shared_ptr<http::Reply> logged(const http::Request& request, std::shared_ptr<http::Reply> reply,
                                                  std::function<void(const std::string&)> log);

}  // namespace lowgear::server::perseus
