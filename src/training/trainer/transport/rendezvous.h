#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "client/rank/rank_environment.h"

namespace lowgear::trainer {

/// Where the ranks of a job find each other: a file that all of them see, or a server that rank 0 (or torchrun) runs.
struct Rendezvous {
  std::filesystem::path file;  ///< used when not empty
  std::string host;
  std::uint16_t port = 0;
  bool hosted_elsewhere = false;  ///< torchrun's agent serves the store already
};

/// What a launcher says: LOWGEAR_RENDEZVOUS (a file), or MASTER_ADDR and MASTER_PORT as torchrun sets them. Throws
/// InputError where there is neither.
[[nodiscard]] Rendezvous rendezvous_from(const Environment& environment);

}  // namespace lowgear::trainer
