#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/core/formats/json.h"
#include "protocol/node_power.h"

namespace lowgear::server {

/// A condition that counts once it has lasted, so that short changes are not reported.
class LastingState {
 public:
  /// Feeds the current value. Returns the new state when it has just lasted for `lasting_s`. The first state is false.
  [[nodiscard]] std::optional<bool> observe(bool is_so, double now_s, double lasting_s) {
    if (is_so == counts_) {
      since_s_.reset();
      return std::nullopt;
    }
    if (!since_s_) since_s_ = now_s;
    if (now_s - *since_s_ < lasting_s) return std::nullopt;
    since_s_.reset();
    counts_ = is_so;
    return counts_;
  }

 private:
  bool counts_ = false;
  std::optional<double> since_s_;  ///< time at which the current value began to differ
};

/// Watts that the GPUs of some hosts may draw together.
struct ShareLimit {
  double watts = 0;
  const std::set<std::string>* hosts = nullptr;  ///< empty: all hosts. Outlives the next `divide`
};

/// Power budgets as the nodes' agents hold them: each GPU has a power limit, and these add up to no more than each
/// budget. A limit is granted for kValidS; an agent that the server does not renew it for sets the node's safe limit by
/// itself. A limit is raised only by what others have been seen to have given up, so that the sum is kept while limits
/// change. A node that is not heard of counts at full power, until it is forgotten.
class PowerShares {
 public:
  static constexpr double kValidS = 5;
  /// A node that no job uses is forgotten after this silence.
  static constexpr double kForgottenS = 600;
  static constexpr std::size_t kMaxNodes = 10'000;

  /// Grants the shares of a node's GPUs.
  [[nodiscard]] protocol::NodeShares grant(const std::string& host, const protocol::NodePower& node, double now_s);
  /// The same, for a node that has asked before and whose limits are unchanged: others may have given up power since,
  /// or the division may be another one. Empty for an unknown node.
  [[nodiscard]] protocol::NodeShares grant_again(const std::string& host);
  /// The last grant.
  [[nodiscard]] protocol::NodeShares granted(const std::string& host) const;
  /// Whether it has these GPUs.
  [[nodiscard]] bool knows(const std::string& host, const protocol::NodePower& node) const;
  [[nodiscard]] bool has(const std::string& host) const { return nodes_.contains(host); }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// Whether these are the GPUs of another machine than the one of this name that has just asked: two machines of one
  /// name would count as one.
  [[nodiscard]] bool is_another(const std::string& host, const protocol::NodePower& node, double now_s) const;
  /// A node of another name that asks for a share of one of these GPUs, too, which would count twice; empty: none does.
  [[nodiscard]] std::string claimant(const std::string& host, const protocol::NodePower& node, double now_s) const;
  /// The highest power limit of a GPU, by the agent that has it; empty: none has.
  [[nodiscard]] std::optional<double> most_w(const std::string& uuid) const;
  /// A node of an earlier process of the server.
  void restore(const std::string& host, const protocol::NodePower& node);
  /// False: there was none.
  bool forget(const std::string& host);
  /// Forgets nodes after kForgottenS, and returns them. To be called after `divide`.
  [[nodiscard]] std::vector<std::string> forget_lost(double now_s);

  /// Divides every limit anew, in proportion to the planned power of the GPUs' jobs (`wanted_w`, by
  /// UUID); a GPU of no job wants the safe limit of its node.
  void divide(std::vector<ShareLimit> limits, const std::unordered_map<std::string, double>& wanted_w, double now_s);

  [[nodiscard]] bool empty() const { return nodes_.empty(); }
  /// By limit, as they were divided last.
  struct Use {
    double held_w = 0;      ///< sum of power limits; silent nodes count at full power
    double reserved_w = 0;  ///< part of it for GPUs without a job and silent nodes
    std::size_t nodes = 0;
    std::size_t silent_nodes = 0;
  };
  [[nodiscard]] const std::vector<Use>& uses() const { return uses_; }

  struct NodeCount {
    std::size_t heard = 0;
    std::size_t silent = 0;
  };
  [[nodiscard]] NodeCount nodes() const;
  /// A node that has been silent for a while, or is heard of again.
  struct NodeChange {
    std::string host;
    bool is_silent = false;
  };
  /// Since the last call; to be called about once a second, after `divide`.
  [[nodiscard]] std::vector<NodeChange> take_changes(double now_s);

 private:
  struct Gpu {
    protocol::GpuPowerLimit power;
    double held_w = 0;     ///< may be in force
    double granted_w = 0;  ///< last
    double target_w = 0;
    double wanted_w = 0;
    bool has_job = false;
  };
  struct Node {
    double safe_w = 0;
    double heard_s = 0;
    bool is_silent = true;
    double silent_since_s = 0;  ///< 0: not known yet
    std::vector<Gpu> gpus;
    std::vector<std::size_t> limits;
    LastingState silence;
  };

  void find_limits();
  void count_use();
  void set_targets(std::size_t limit, const std::vector<Node*>& members);
  [[nodiscard]] double slack_w(const Node& node) const;
  void grant(Node& node, Gpu& gpu);

  void forget_gpus(const Node& node);
  void take_from_others(const std::string& host, const std::string& uuid);

  std::map<std::string, Node> nodes_;                     ///< by host
  std::unordered_map<std::string, std::string> host_of_;  ///< by UUID
  std::vector<ShareLimit> limits_;
  std::vector<Use> uses_;
};

}  // namespace lowgear::server
