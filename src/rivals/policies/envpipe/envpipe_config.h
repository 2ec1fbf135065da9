#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::policies {

/// EnvPipe's settings, by its own names where it has some.
struct EnvPipeOptions {
  /// `baseline`: every op at the highest clock, in the given order. `uniform`: every op at the clock at which its stage
  /// used least energy. `envelope`: the outer envelope and all of the last stage at the highest clock, the others as
  /// `uniform`.
  enum class Type { baseline, uniform, envelope };
  /// `given`: the order of the problem's schedule. `own`: EnvPipe's, with more forwards before the first backward.
  enum class Order { given, own };
  /// `off`: EnvPipe's `default`.
  enum class Reconfiguration { off, greedy, balanced };

  Type type = Type::envelope;
  Order order = Order::own;
  Reconfiguration reconfiguration = Reconfiguration::balanced;
  /// The highest and the lowest clock that it uses; none: those of the profile. On an A100 its own are 1350 and 810
  /// MHz.
  std::optional<int> start_clock_mhz = std::nullopt;
  std::optional<int> lowest_clock_mhz = std::nullopt;
  /// A GPU that was named and whose clocks EnvPipe does not list: both of them have to be given. Empty: none.
  std::string unlisted_gpu = {};
  int profile_step_mhz = 90;  ///< distance of the clocks it profiles; EnvPipe's is the same on every GPU
  int raise_step_mhz = 30;    ///< least rise of a clock in one reconfiguration; likewise
  /// A unit waits for its input, rather than for its GPU, when receiving takes this many times the shortest receive.
  double threshold_scale = 4;
  /// Activations that fit into memory beyond those of 1F1B, by stage, or one number for all; empty: those of the
  /// problem, or none. Bounds `own`.
  std::vector<int> extra_activations = {};
  /// Time that a transfer takes once both sides are ready; part of every simulated receive. Decides how much waiting
  /// goes unnoticed. 1 ms is 25 MB at 25 GB/s.
  double transfer_s = 1e-3;
  /// The same between each stage and the next one, where it differs: one number less than stages; empty: `transfer_s`.
  std::vector<double> transfer_by_link_s = {};
};

/// Throws InputError unless steps and clocks are within 1 and 10^6 MHz, the start clock is not below the lowest one,
/// both are given for a GPU that EnvPipe does not list, the scale and the transfers are finite and not negative, and so
/// are the extra activations.
void require_valid(const EnvPipeOptions& options);

/// The settings that the member `envpipe` of a DeepSpeed configuration states, as EnvPipe and KISTI's EnvPipe read it:
/// type, scheduling, reconfig, gpu (as set_envpipe_gpu) and reconfigure_threshold_scale. Throws InputError naming the
/// member, also for any other one.
[[nodiscard]] EnvPipeOptions read_envpipe_config(std::string_view text, const std::string& source);

/// v100, rtx3090, a100, a6000: the first and last clock of EnvPipe's list. Another GPU is unlisted: require_valid then
/// demands its clocks.
void set_envpipe_gpu(const std::string& gpu, EnvPipeOptions& options);

/// The value of a word of the tables below. Throws InputError on any other word.
[[nodiscard]] EnvPipeOptions::Type envpipe_type(std::string_view word);
[[nodiscard]] EnvPipeOptions::Reconfiguration envpipe_reconfiguration(std::string_view word);

// The words of EnvPipe's options, as its command line and its configuration write them. A word and its value have the
// same place in their two tables.
inline constexpr auto kEnvPipeTypeWords = std::to_array<std::string_view>({"baseline", "uniform", "envelope"});
inline constexpr auto kEnvPipeTypes =
    std::to_array({EnvPipeOptions::Type::baseline, EnvPipeOptions::Type::uniform, EnvPipeOptions::Type::envelope});
inline constexpr auto kEnvPipeOrderWords = std::to_array<std::string_view>({"1f1b", "ours"});
inline constexpr auto kEnvPipeOrders = std::to_array({EnvPipeOptions::Order::given, EnvPipeOptions::Order::own});
inline constexpr auto kEnvPipeReconfigWords = std::to_array<std::string_view>({"default", "greedy", "balanced"});
inline constexpr auto kEnvPipeReconfigurations =
    std::to_array({EnvPipeOptions::Reconfiguration::off, EnvPipeOptions::Reconfiguration::greedy,
                   EnvPipeOptions::Reconfiguration::balanced});

/// The ends of EnvPipe's list of clocks: the multiples of 90 MHz between its constants for the GPU.
struct EnvPipeListedClocks {
  int start_mhz;
  int lowest_mhz;
};
inline constexpr auto kEnvPipeGpuWords = std::to_array<std::string_view>({"v100", "rtx3090", "a100", "a6000"});
inline constexpr auto kEnvPipeListedClocks =
    std::to_array<EnvPipeListedClocks>({{1530, 810}, {1980, 1170}, {1350, 810}, {1890, 1710}});

}  // namespace lowgear::policies
