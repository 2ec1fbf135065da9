#pragma once

#include <chrono>

#include "training/launcher/rank_layout.h"
#include "training/trainer/transport/rendezvous.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Connects a rank with all others over TCP, with c10d's Gloo. Throws Error when not all of them come within `timeout`.
/// After that, a transfer that takes longer than `timeout`, or whose other side has gone, throws Error, and no further
/// one will work.
[[nodiscard]] Communicators connect_gloo(const launcher::RankLayout& layout, int rank, const Rendezvous& rendezvous,
                                         std::chrono::seconds timeout);

}  // namespace lowgear::trainer
