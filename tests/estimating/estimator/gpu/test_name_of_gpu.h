#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace lowgear::estimator {

/// Names a test after a GPU of the catalogue, in letters that GoogleTest takes.
inline std::string test_name_of_gpu(const testing::TestParamInfo<std::string>& gpu) {
  std::string name = gpu.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace lowgear::estimator
