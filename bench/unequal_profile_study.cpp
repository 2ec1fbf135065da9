/// Writes the stage profile in which no two stages are alike, for `lowgear plan`: unequal_profile_study STAGES > P.csv
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "pipelines.h"

int main(int argc, char** argv) {
  const int stages = argc == 2 ? std::atoi(argv[1]) : 0;
  if (stages < 1 || stages > 1024) {
    fmt::print(stderr, "usage: unequal_profile_study STAGES (1 to 1024)\n");
    return 2;
  }
  fmt::print("{}", lowgear::profile::write_stage_profile(lowgear::bench::unequal_stages(stages)));
  return 0;
}
