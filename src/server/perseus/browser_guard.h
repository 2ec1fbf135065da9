#pragma once

#include "base/http/message/message.h"

namespace lowgear::server::perseus {

/// Throws HttpError unless a program has sent the request, or a person who opens `/info`. The port knows no tokens, so
/// it must not answer a browser that acts for the web page of a stranger: refused are requests that name an `Origin`
/// or, by `Sec-Fetch-Site`, come from another site (403), bodies that are said to be something else than JSON, as those
/// that browsers send without asking first are (415), and, when `loopback_only`, a `Host` that does not name the
/// loopback interface: the name of a web page that its owner has made to point at this machine (403).
void refuse_browsers(const http::Request& request, bool loopback_only);

}  // namespace lowgear::server::perseus
