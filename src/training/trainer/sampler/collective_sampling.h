#pragma once

#include <vector>

#include "training/trainer/sampler/sampling_run.h"
#include "training/trainer/transport/rendezvous.h"

namespace lowgear::trainer {

/// Samples collectives of all ranks, each of which calls this. Rank 0 writes the files and has the events; the others
/// return none. Throws PeerLost when another rank has gone, and InputError where there is but one rank.
[[nodiscard]] std::vector<SampledFile> sample_collectives(const SamplingRun& run, const Rendezvous& rendezvous,
                                                          const SamplingEvents& events);

}  // namespace lowgear::trainer
