#pragma once

#include <chrono>

#include "training/launcher/rank_layout.h"
#include "training/trainer/transport/rendezvous.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Connects a rank that computes on CUDA device `device` with all others, with c10d's NCCL. Tensors may also be on the
/// CPU, except between stages: they then go through the GPU. Throws Error when not all ranks come within `timeout`.
///
/// Waiting for a transfer makes the GPU's current stream wait, not the CPU. Every pair of stages has its own
/// communicator, and with it its own order of messages: a receive that waits holds up only what follows between the
/// same two ranks.
[[nodiscard]] Communicators connect_nccl(const launcher::RankLayout& layout, int rank, int device,
                                         const Rendezvous& rendezvous, std::chrono::seconds timeout);

}  // namespace lowgear::trainer
