#pragma once

#include <fmt/format.h>
#include <stdlib.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "base/core/numbers/number.h"

namespace lowgear {

/// What a program is given that kills processes at random times and checks what they leave.
struct KillRounds {
  std::filesystem::path folder;  ///< empty; removed after them
  int rounds = 0;
  std::uint64_t seed = 0;
};

/// The `main` of such a program, `NAME [ROUNDS SEED]`. `run` returns whether all was as it has to be; what it throws is
/// printed and a failure.
template <typename Run>
int kill_program(int argc, char** argv, const char* name, long long default_rounds, Run run) {
  const auto rounds = argc == 3 ? parse_integer(argv[1]) : std::optional(default_rounds);
  const auto seed = argc == 3 ? parse_integer(argv[2]) : std::optional(7LL);
  if (!rounds || !seed || (argc != 1 && argc != 3)) {
    fmt::print(stderr, "usage: {} [ROUNDS SEED]\n", name);
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "lg-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return EXIT_FAILURE;
  bool good = false;
  try {
    good = run(KillRounds{folder, static_cast<int>(*rounds), static_cast<std::uint64_t>(*seed)});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  std::filesystem::remove_all(folder);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace lowgear
