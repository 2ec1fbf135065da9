#include <algorithm>
#include <array>

#include "estimating/estimator/job/training_job.h"

/// Network adapters, of which each GPU has one at most (one direction, at line rate): DGX-1 (four EDR InfiniBand for
/// eight V100), DGX A100 (eight HDR), DGX H100, H200 and B200 (eight NDR): NVIDIA's data sheets of each. GH200: the
/// four of a node of JUPITER and of Alps, each with 200 Gb/s (Juelich Supercomputing Centre, CSCS). PCIe cards have no
/// reference system: one HDR100 for an A40, RTX 3090, RTX A6000 or A100, one HDR for an H100 is assumed.
///
/// Latencies are what NCCL assumes for one step of a ring with its protocol Simple (src/graph/tuning.cc, `hwLat`):
/// 3.4 us over NVLink, 5.7 us over PCIe, 14 us over the network. On A100 a step takes longer: the time of an all-reduce
/// without its bytes grows by 7.3 us with each step of the ring among 2, 4 and 8 GPUs (vTrain, trace/a100, of 1 MB to 1
/// GB, made with nccl-tests; github.com/VIA-Research/vTrain).
#include "base/core/units.h"

namespace lowgear::estimator {
namespace {

constexpr double kNvlinkLatencyS = 3.4e-6;
constexpr double kA100NvlinkLatencyS = 7.3e-6;
constexpr double kPcieLatencyS = 5.7e-6;
constexpr double kNetworkLatencyS = 14e-6;
/// No NVLink is slower, no PCIe faster.
constexpr double kSlowestNvlinkBytesPerS = 100 * kGiga;

struct Network {
  std::string_view gpu;
  int gpus_per_node;
  double bytes_per_s;  ///< of one GPU
};

/// Jobs of powers of two use 64 of the 72 GPUs that a rack of GB200 or GB300 joins by NVLink.
constexpr auto kNetworks = std::to_array<Network>({
    {"v100-16gb-sxm", 8, 6.25 * kGiga},
    {"v100-sxm", 8, 6.25 * kGiga},
    {"rtx-3090", 8, 12.5 * kGiga},
    {"rtx-a6000", 8, 12.5 * kGiga},
    {"a40", 8, 12.5 * kGiga},
    {"a100-40gb-sxm", 8, 25 * kGiga},
    {"a100-80gb-pcie", 8, 12.5 * kGiga},
    {"a100-80gb-sxm", 8, 25 * kGiga},
    {"h100-pcie", 8, 25 * kGiga},
    {"h100-sxm", 8, 50 * kGiga},
    {"h200-sxm", 8, 50 * kGiga},
    {"gh200", 4, 25 * kGiga},
    {"b200", 8, 50 * kGiga},
    {"gb200", 64, 50 * kGiga},
    {"b300", 8, 100 * kGiga},
    {"gb300", 64, 100 * kGiga},
});
/// For GPUs that are not in the table.
constexpr Network kUnknownNetwork = {"", 8, 25 * kGiga};

}  // namespace

Cluster default_cluster(const GpuModel& gpu) {
  const auto* const found = std::ranges::find(kNetworks, gpu.name, &Network::gpu);
  const Network& network = found == kNetworks.end() ? kUnknownNetwork : *found;
  const bool nvlink = gpu.link_bytes_per_s >= kSlowestNvlinkBytesPerS;
  const double nvlink_s = gpu.name.starts_with("a100") ? kA100NvlinkLatencyS : kNvlinkLatencyS;
  const double latency_s = nvlink ? nvlink_s : kPcieLatencyS;
  return {.gpus_per_node = network.gpus_per_node,
          .intra_node = {gpu.link_bytes_per_s, latency_s},
          .inter_node = {network.bytes_per_s, kNetworkLatencyS}};
}

}  // namespace lowgear::estimator
