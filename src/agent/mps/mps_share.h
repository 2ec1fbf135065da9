#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "agent/lease/process_watch.h"
#include "agent/service/agent_service.h"

namespace lowgear::agent {

/// What a process asks for: a limit on the SMs that a job of it may use, from the start of the job to its end.
struct MpsShareRequest {
  int percent = 100;   ///< of the GPU's SMs, 1 to 100
  std::string client;  ///< name in status and metrics, once per GPU; empty: one is made
  std::string job;     ///< whose ranks form communicators together; empty: not known
  std::optional<std::uint32_t> rank = {};
};

/// A share that was given. It reserves nothing: it is the most that the job may use, whatever others use.
struct MpsShare {
  std::uint64_t id = 0;
  std::string gpu_uuid;
  MpsShareRequest request;
  Peer owner;
  ProcessIdentity process;  ///< ends with it
  std::chrono::steady_clock::time_point since;
};

/// The shares that there are. Pure: decides by what it holds.
class MpsShareTable {
 public:
  /// `max_percent`: largest sum of the shares of one GPU.
  explicit MpsShareTable(int max_percent) : max_percent_(max_percent) {}

  /// Gives it the next number, and its client a name if it has none. A second share of the same process on the same
  /// GPU replaces the first. Throws GpuBusy, with the reason, where
  /// - the GPU has shares of another user: MPS serves one user at a time;
  /// - another rank of the same job has a share of the GPU: NCCL refuses two ranks of a communicator on one GPU;
  /// - the name is taken on this GPU;
  /// - the shares of the GPU would sum to more than `max_percent`.
  const MpsShare& add(MpsShare share);
  /// Null when there is none.
  [[nodiscard]] const MpsShare* find(std::uint64_t id) const;
  void remove(std::uint64_t id);
  /// In the order in which they were given.
  [[nodiscard]] const std::map<std::uint64_t, MpsShare>& all() const { return shares_; }
  /// Of all shares of the GPU, in per cent.
  [[nodiscard]] int sum_percent(std::string_view gpu_uuid) const;

 private:
  /// Throws GpuBusy where `share` may not be there together with `other`.
  static void require_together(const MpsShare& share, const MpsShare& other);

  int max_percent_;
  std::map<std::uint64_t, MpsShare> shares_;  // by number
  std::uint64_t last_id_ = 0;
};

}  // namespace lowgear::agent
