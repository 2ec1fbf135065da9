#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <sstream>
#include <string>

namespace lowgear::metrics {

/// Expects of a text in Prometheus' format that every sample stands under the type of its family, and none comes twice.
/// Returns how many there are.
inline std::size_t expect_samples_in_families(const std::string& exposition) {
  std::istringstream text(exposition);
  std::set<std::string> seen;
  std::string family;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("# TYPE ")) family = line.substr(7, line.find(' ', 7) - 7);
    if (line.starts_with("#")) continue;
    EXPECT_TRUE(line.starts_with(family)) << line;
    EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
  return seen.size();
}

}  // namespace lowgear::metrics
