#pragma once

#include <string>

#include "app/cli/terminal/console.h"
#include "planning/profile/compose/composed_profile.h"

namespace lowgear::cli {

/// `lowgear profile compose`.
struct ComposeRun {
  std::string parts;  ///< file
  std::string out;    ///< file
  profile::ComposeOptions options;
  bool json = false;
};

/// Writes the composed profile. Throws what reading and composing throw.
void run_compose(const ComposeRun& run, Console& console);

}  // namespace lowgear::cli
