#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "launcher/rank_layout.h"
#include "trainer/transport.h"

namespace lowgear {

/// Where the ranks of a job find each other: a file that all of them see, or a server that rank 0 (or torchrun) runs.
struct Rendezvous {
  std::filesystem::path file;  ///< used when not empty
  std::string host;
  std::uint16_t port = 0;
  bool hosted_elsewhere = false;  ///< torchrun's agent serves the store already
};

/// Connects a rank with all others over TCP, with c10d's Gloo. Throws Error when not all of them come within `timeout`.
/// After that, a transfer that takes longer than `timeout`, or whose other side has gone, throws Error, and no further
/// one will work.
[[nodiscard]] Communicators connect_gloo(const RankLayout& layout, int rank, const Rendezvous& rendezvous,
                                         std::chrono::seconds timeout);

}  // namespace lowgear
