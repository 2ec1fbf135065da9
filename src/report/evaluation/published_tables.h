#pragma once

#include <array>
#include <span>
#include <string_view>

/// What the evaluation of Perseus states (Chung et al., "Reducing Energy Bloat in Large Model Training", SOSP'24), as
/// the notebook of its artifact prints it (ml-energy/zeus, branch kronos, evaluation.ipynb). Data: nothing here is
/// computed.
namespace lowgear::evaluation {

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

/// What the authors' scripts take for a GPU.
struct PublishedDevice {
  std::string_view device;      ///< as files of the emulation name it
  std::string_view gpu;         ///< as the measured workloads name its kind
  double blocking_power_w = 0;  ///< of one GPU
  double unit_s = 0;            ///< time unit of the emulation's frontiers
};

[[nodiscard]] std::span<const PublishedWorkload> published_workloads();
[[nodiscard]] std::span<const PublishedEmulation> published_emulations();
[[nodiscard]] std::span<const PublishedDevice> published_devices();

/// Blocking power of one GPU of this kind (`A100`) or device (`a100_sxm`). Throws InputError naming those that exist.
[[nodiscard]] double published_blocking_power_w(std::string_view gpu_or_device);

}  // namespace lowgear::evaluation
