#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "planning/simulator/cluster.h"
#include "rivals/formats/perseus_plan.h"

namespace lowgear::simulator {

/// What ml-energy/kareus takes a waiting A100 to draw.
inline constexpr double kKareusBlockingW = 85;

/// A plan of ml-energy/kareus (two stages of 8 GPUs, 8 microbatches, 1F1B): its clocks, and what its file states. With
/// C the "total cost" and C' the "total cost with P2P", C' is the energy of one GPU of each stage, and the iteration
/// takes (C' - C) / (2 x 85 W). Both are planned by Lowtime's model, an exponential fit on whole milliseconds, not
/// measured.
struct KareusPlan {
  formats::PerseusPlan clocks;
  PipelineFigures figures;
};

struct KareusConfiguration {
  std::string name;               ///< method, model and parallelism
  std::vector<KareusPlan> plans;  ///< slowest first
};

/// The plans of every folder `frontier` below `root`, sorted by name. Throws InputError on a file without costs.
[[nodiscard]] std::vector<KareusConfiguration> kareus_configurations(const std::filesystem::path& root);

/// Time and power of the ops of both stages as functions of the clock, with x = clock / 1410 MHz:
///   time  = tau (phi + (1 - phi) / x), on stage 1 times rho
///   power = p0 + p1 x + p2 max(0, x - bend)^2
/// with tau, phi, rho, p0, p1, p2 of each kind, and one bend.
struct StageCurves {
  struct Kind {
    double tau_s = 0;
    double fixed_share = 0;           ///< phi
    double ratio = 1;                 ///< rho
    std::array<double, 3> power_w{};  ///< p0, p1, p2
  };
  Kind forward;
  Kind backward;
  double bend = 0.7;

  [[nodiscard]] double time_s(int stage, OpKind kind, int clock_mhz) const;
  [[nodiscard]] double power_w(OpKind kind, int clock_mhz) const;
};

/// The curves that fit time and energy of the plans best, in least squares of relative errors with weak priors (a third
/// of the time does not depend on the clock; stages are alike; a backward takes twice as long as a forward), which
/// are the same for all configurations: eight plans state 16 figures for 13 parameters.
[[nodiscard]] StageCurves fit_stage_curves(std::span<const KareusPlan> plans);

/// The plan, replayed on the curves.
[[nodiscard]] PipelineFigures replayed(const formats::PerseusPlan& clocks, const StageCurves& curves);

/// Largest relative error of time and of energy of the plans at `held_out`, with curves fitted from all others.
[[nodiscard]] PipelineFigures held_out_errors(const KareusConfiguration& configuration,
                                              std::span<const std::size_t> held_out);

}  // namespace lowgear::simulator
