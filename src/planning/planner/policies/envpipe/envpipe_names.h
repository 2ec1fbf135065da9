#pragma once

#include <array>
#include <string_view>

#include "planning/planner/policies/envpipe/envpipe_options.h"

/// The words of EnvPipe's options, as its command line and its configuration have them; of equal place in the tables
/// of values.
namespace lowgear::planner {

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

}  // namespace lowgear::planner
