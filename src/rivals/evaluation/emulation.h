#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "base/core/progress.h"
#include "planning/profile/stage_profile.h"
#include "planning/simulator/cluster.h"

namespace lowgear::evaluation {

// The figures that the evaluation of Perseus states (Chung et al., "Reducing Energy Bloat in Large Model Training",
// SOSP'24), as the notebook of its artifact prints them (ml-energy/zeus, branch kronos, evaluation.ipynb).

/// Factors by which the straggler of table 4 is slower.
inline constexpr std::array<double, 6> kTable4Factors{1.05, 1.1, 1.2, 1.3, 1.4, 1.5};

/// One method's cells of tables 3 and 4, in per cent.
struct PublishedMethod {
  double saving_pct = 0;                                    ///< table 3
  double slowdown_pct = 0;                                  ///< table 3
  std::array<double, kTable4Factors.size()> straggler_pct;  ///< table 4, by factor
};

/// One workload that the authors measured.
struct PublishedWorkload {
  std::string_view gpu;
  std::string_view model;
  PublishedMethod perseus;
  PublishedMethod envpipe;
};

/// A pipeline of the emulation: eight stages, tensor parallelism 8, 1536 microbatches in all pipelines together.
struct PublishedEmulation {
  std::string_view model;
  std::string_view device;
  std::array<double, 4> perseus_pct;       ///< table 6, by kTable6Microbatches
  std::array<double, 2> total_saving_pct;  ///< figure 7: Perseus, EnvPipe; 96 microbatches, straggler of 1.2
};

inline constexpr std::array<int, 4> kTable6Microbatches{12, 24, 48, 96};
inline constexpr int kGlobalMicrobatches = 1536;
inline constexpr int kFigure7Microbatches = 96;
inline constexpr double kFigure7Factor = 1.2;

/// Digits after the point that the cells have.
inline constexpr int kTable3Digits = 1;
inline constexpr int kTable4Digits = 1;
inline constexpr int kTable6Digits = 2;
inline constexpr int kFigure7Digits = 2;

/// A GPU as the authors' scripts describe it.
struct PublishedDevice {
  std::string_view device;      ///< as files of the emulation name it
  std::string_view gpu;         ///< as the measured workloads name its kind
  double blocking_power_w = 0;  ///< of one GPU
  double unit_s = 0;            ///< time unit of the emulation's frontiers
};

[[nodiscard]] std::span<const PublishedWorkload> published_workloads();
[[nodiscard]] std::span<const PublishedEmulation> published_emulations();
[[nodiscard]] std::span<const PublishedDevice> published_devices();

/// Blocking power of one GPU of this kind (`A100`) or device (`a100_sxm`). Throws InputError that names the known ones.
[[nodiscard]] double published_blocking_power_w(std::string_view gpu_or_device);

// Emulated savings.

/// A pipeline of the emulation, and the data that its savings are compared with.
struct EmulationCase {
  const profile::StageProfile* profile = nullptr;  ///< never null
  int microbatches = 0;
  PublishedDevice device;
  Progress* progress = nullptr;  ///< hears of plans that take long, and may throw to stop them; may be null
};

/// Plans for one pipeline at its least time, and for a straggler of kFigure7Factor.
struct EmulatedPlans {
  simulator::PipelineFigures fastest;
  simulator::PipelineFigures waiting;
};

/// Planned as Perseus plans: its fit, its units of time, solved exactly. Throws what PerseusModel throws.
[[nodiscard]] EmulatedPlans plans_of_perseus(const EmulationCase& emulation);
/// Lowgear's own plans, replayed on the profile. Throws what PipelinePlanner throws.
[[nodiscard]] EmulatedPlans plans_of_lowgear(const EmulationCase& emulation);
/// Lowgear's plans at its least time, and for waiting for a pipeline that takes each of these times as long.
[[nodiscard]] std::vector<simulator::PipelineFigures> plans_of_lowgear(const EmulationCase& emulation,
                                                                       std::span<const double> factors);
/// The whole frontier of Perseus' model, slowest first.
[[nodiscard]] std::vector<simulator::PipelineFigures> frontier_of_perseus(const EmulationCase& emulation);
/// The plan of the artifact's EnvPipe, replayed.
[[nodiscard]] simulator::PipelineFigures plan_of_envpipe(const EmulationCase& emulation);

/// Table 6: saving of `energy_j` against all ops at their highest clock within `time_s`, in per cent.
[[nodiscard]] double intrinsic_saving_pct(const EmulationCase& emulation, double time_s, double energy_j);

/// One pipeline of a cluster with a straggler slower by `factor`; all ops at their highest clock take `time_s`.
[[nodiscard]] simulator::StragglerScenario straggler_scenario(const EmulationCase& emulation, double time_s,
                                                              double factor);

/// The cluster of figure 7 whose plans are `time_s` long: kGlobalMicrobatches in all pipelines, one slower by
/// kFigure7Factor.
[[nodiscard]] simulator::StragglerScenario figure7_cluster(const EmulationCase& emulation, double time_s);

/// A cluster of data-parallel copies of a pipeline, whose stages are each split over several GPUs.
struct EmulatedCluster {
  int pipelines = 1;
  int tensor_parallel = 1;  ///< GPUs of a stage; each runs as the one GPU of the profile
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

/// A cluster whose pipelines run with this number of microbatches.
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
