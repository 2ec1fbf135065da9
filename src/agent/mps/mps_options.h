#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace lowgear::agent {

/// The `[mps]` of the configuration, and times that it does not set. Closed by default: without `gpus` the agent starts
/// no daemon and gives no shares.
struct MpsOptions {
  std::vector<std::string> gpus;  ///< UUIDs or PCI addresses of the GPUs for which the agent runs a daemon
  gid_t group = 0;                ///< who may use the daemons, and ask for shares, besides root
  std::filesystem::path folder = "/run/lowgear/mps";
  std::filesystem::path program = "/usr/bin/nvidia-cuda-mps-control";
  int max_percent = 100;                    ///< largest sum of the shares of one GPU
  std::chrono::milliseconds grace{5'000};   ///< how long clients may take to end when the agent ends
  std::chrono::milliseconds start{30'000};  ///< from the start of a daemon to its first response
  /// A daemon that does not respond for so long is replaced, which ends CUDA in its jobs.
  std::chrono::milliseconds answer{30'000};
  std::chrono::milliseconds check{5'000};  ///< between two requests for one
  std::chrono::milliseconds retry{1'000};  ///< before a daemon that has ended is started again; doubles each time
  std::chrono::milliseconds retry_at_most{60'000};
};

}  // namespace lowgear::agent
