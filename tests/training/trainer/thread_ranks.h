#pragma once

#include <functional>

#include "training/launcher/rank_layout.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Runs `body` for every rank of the layout, each on a thread of its own. Throws what the first rank that failed threw.
void run_thread_ranks(const protocol::JobParallel& parallel,
                      const std::function<void(int rank, Communicators ranks)>& body);

}  // namespace lowgear::trainer
