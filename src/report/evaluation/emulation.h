#pragma once

#include <span>
#include <vector>

#include "planning/simulator/cluster.h"
#include "report/evaluation/emulated_savings.h"

namespace lowgear::evaluation {

/// A cluster of data-parallel copies of a pipeline, whose stages are each split over several GPUs.
struct EmulatedCluster {
  int pipelines = 1;
  int tensor_parallel = 1;  ///< GPUs of a stage; each does and draws what the profile says of one
};

/// Whose plans the pipelines run.
enum class PlansOf : unsigned char { lowgear, perseus };

/// One iteration of the cluster in which one pipeline takes `factor` times as long.
struct EmulatedStraggler {
  double factor = 1;
  double time_s = 0;         ///< the straggler's: of the iteration
  double baseline_j = 0;     ///< of all GPUs, every op at its highest clock
  double energy_j = 0;       ///< of all GPUs, as planned: the straggler fast, the others as slow as it allows
  double saving_pct = 0;     ///< of the one against the other: intrinsic and extrinsic
  double extrinsic_pct = 0;  ///< against a cluster in which all pipelines run the fastest plan
};

/// A cluster whose pipelines run with so many microbatches.
struct Emulation {
  int microbatches = 0;  ///< of one pipeline
  EmulatedCluster cluster;
  int gpus = 0;
  simulator::PipelineFigures fastest;  ///< one pipeline's fastest plan, one GPU a rank
  double intrinsic_pct = 0;            ///< saving without a straggler
  std::vector<EmulatedStraggler> stragglers;
};

/// The emulation of Perseus' evaluation (SOSP'24, section 6.3, figures 7 and 8) for any profile, on 1F1B: the energy is
/// the sum over pipelines, each until the straggler's end, at blocking power when it is done before. *Emulated*: plans
/// of the profile, nothing is measured. Lowgear's plans are replayed; those of Perseus are its model's, whose times are
/// rounded down to the unit. Throws InputError when a count is below 1, a factor below 1 or the profile cannot be
/// planned.
[[nodiscard]] Emulation emulate(const EmulationCase& emulation, const EmulatedCluster& cluster,
                                std::span<const double> factors, PlansOf method, simulator::Accounting accounting);

}  // namespace lowgear::evaluation
