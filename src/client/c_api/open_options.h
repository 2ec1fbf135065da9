#pragma once

#include "base/core/environment.h"
#include "client/client.h"
#include "client/lowgear.h"

namespace lowgear::client::c_api {

/// The options of `lowgear_open` (null: all defaults), and where they say nothing those of the environment. Throws
/// InputError where they are invalid.
[[nodiscard]] Options client_options(const lowgear_options* options, const Environment& environment);

}  // namespace lowgear::client::c_api
