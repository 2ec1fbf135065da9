#pragma once

#include <string>

#include "base/core/error.h"
#include "base/core/files/user_database.h"

namespace lowgear {

/// A machine with one user, alice (1001), and one group, training (2001).
inline NameLookup known_names() {
  return {.user = [](const std::string& name) -> uid_t {
            if (name != "alice") throw Error("there is no user " + quote(name));
            return 1001;
          },
          .group = [](const std::string& name) -> gid_t {
            if (name != "training") throw Error("there is no group " + quote(name));
            return 2001;
          }};
}

}  // namespace lowgear
