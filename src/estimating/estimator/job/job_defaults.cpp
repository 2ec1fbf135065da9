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
///
/// CPUs: a GPU's lanes of PCIe after line coding, or its share of NVLink-C2C (GH200: 450 GB/s a direction; GB200 and
/// GB300: one such link for two GPUs), and its share of the memory's bandwidth by channels and their rate: DGX-1 (two
/// Xeons with four channels of DDR4-2133), DGX A100 (two EPYC 7742, eight of DDR4-3200), DGX H100 and H200 (two Xeon
/// 8480C, eight of DDR5-4800), DGX B200 (two Xeon 8570, DDR5-5600), DGX B300 (two Xeon 6776P, DDR5-6400), the data
/// sheets of GH200 (512 GB/s) and GB300 NVL72 (14 TB/s). PCIe cards are assumed to have the CPUs of the DGX of their
/// generation.
#include "base/core/units.h"

namespace lowgear::estimator {
namespace {

constexpr double kNvlinkLatencyS = 3.4e-6;
constexpr double kA100NvlinkLatencyS = 7.3e-6;
constexpr double kPcieLatencyS = 5.7e-6;
constexpr double kNetworkLatencyS = 14e-6;
/// No NVLink is slower, no PCIe faster.
constexpr double kSlowestNvlinkBytesPerS = 100 * kGiga;

constexpr double kPcie3BytesPerS = 15.75 * kGiga;
constexpr double kPcie4BytesPerS = 31.5 * kGiga;
constexpr double kPcie5BytesPerS = 63 * kGiga;
constexpr double kC2cBytesPerS = 450 * kGiga;

constexpr HostMemory kDgx1{kPcie3BytesPerS, 17.1 * kGiga, "published for DGX-1"};
constexpr HostMemory kDgxA100{kPcie4BytesPerS, 51.2 * kGiga, "published for DGX A100"};
constexpr HostMemory kLikeDgxA100{kPcie4BytesPerS, 51.2 * kGiga, "assumed: as DGX A100"};
constexpr HostMemory kDgxH100{kPcie5BytesPerS, 76.8 * kGiga, "published for DGX H100"};
constexpr HostMemory kLikeDgxH100{kPcie5BytesPerS, 76.8 * kGiga, "assumed: as DGX H100"};
constexpr HostMemory kGh200{kC2cBytesPerS, 512 * kGiga, "published for GH200"};
constexpr HostMemory kDgxB200{kPcie5BytesPerS, 89.6 * kGiga, "published for DGX B200"};
constexpr HostMemory kGb200{kC2cBytesPerS / 2, 256 * kGiga, "assumed: half of GH200's"};
constexpr HostMemory kDgxB300{kPcie5BytesPerS, 102.4 * kGiga, "memory published for DGX B300, PCIe 5 assumed"};
constexpr HostMemory kGb300{kC2cBytesPerS / 2, 194 * kGiga, "memory published for GB300 NVL72, half a link assumed"};

struct Node {
  std::string_view gpu;
  int gpus;
  double network_bytes_per_s;  ///< of one GPU
  HostMemory host;
};

/// Jobs of powers of two use 64 of the 72 GPUs that a rack of GB200 or GB300 joins by NVLink.
constexpr auto kNodes = std::to_array<Node>({
    {"v100-16gb-sxm", 8, 6.25 * kGiga, kDgx1},
    {"v100-sxm", 8, 6.25 * kGiga, kDgx1},
    {"rtx-3090", 8, 12.5 * kGiga, kLikeDgxA100},
    {"rtx-a6000", 8, 12.5 * kGiga, kLikeDgxA100},
    {"a40", 8, 12.5 * kGiga, kLikeDgxA100},
    {"a100-40gb-sxm", 8, 25 * kGiga, kDgxA100},
    {"a100-80gb-pcie", 8, 12.5 * kGiga, kLikeDgxA100},
    {"a100-80gb-sxm", 8, 25 * kGiga, kDgxA100},
    {"h100-pcie", 8, 25 * kGiga, kLikeDgxH100},
    {"h100-sxm", 8, 50 * kGiga, kDgxH100},
    {"h200-sxm", 8, 50 * kGiga, kDgxH100},
    {"gh200", 4, 25 * kGiga, kGh200},
    {"b200", 8, 50 * kGiga, kDgxB200},
    {"gb200", 64, 50 * kGiga, kGb200},
    {"b300", 8, 100 * kGiga, kDgxB300},
    {"gb300", 64, 100 * kGiga, kGb300},
});
/// For GPUs that are not in the table.
constexpr Node kUnknownNode = {"", 8, 25 * kGiga, kLikeDgxA100};

}  // namespace

Cluster default_cluster(const GpuModel& gpu) {
  const auto* const found = std::ranges::find(kNodes, gpu.name, &Node::gpu);
  const Node& node = found == kNodes.end() ? kUnknownNode : *found;
  const bool nvlink = gpu.link_bytes_per_s >= kSlowestNvlinkBytesPerS;
  const double nvlink_s = gpu.generation == Generation::ampere ? kA100NvlinkLatencyS : kNvlinkLatencyS;
  const double latency_s = nvlink ? nvlink_s : kPcieLatencyS;
  return {.gpus_per_node = node.gpus,
          .intra_node = {gpu.link_bytes_per_s, latency_s},
          .inter_node = {node.network_bytes_per_s, kNetworkLatencyS},
          .host = node.host};
}

}  // namespace lowgear::estimator
