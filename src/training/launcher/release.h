#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lowgear::launcher {

/// Environment variable with the release of the `lowgear` that starts the programs of ranks.
inline constexpr const char* kLauncherReleaseVariable = "LOWGEAR_LAUNCHER_RELEASE";

/// For a program of ranks: throws InputError, which names both, where `lowgear` of another release has started it. They
/// exchange files and arguments whose format belongs to one release. `launcher` is what the variable holds; empty where
/// torchrun, srun or mpirun started the program.
void require_release_of(const std::optional<std::string>& launcher);

}  // namespace lowgear::launcher
