#pragma once

#include "base/core/environment.h"
#include "client/c_api/handle.h"

namespace lowgear::client::c_api {

/// A search that `lowgear run --search` asks for is no call of the program: what becomes of it is said here.
void begin_search_asked_for(lowgear_client& client, const Environment& environment);

}  // namespace lowgear::client::c_api
