#include "server/fleet/power_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace lowgear::server {
namespace {

/// Of what a GPU wants, in limits that leave every GPU as much as it can draw.
constexpr double kMostShare = 1'000;
constexpr int kBisections = 40;
constexpr double kRoundingW = 1e-6;
/// After this time a node that is silent is reported as such: most are heard of again when the server has started anew.
constexpr double kSilenceLastsS = 10;

double clamped(double watts, const protocol::GpuPowerLimit& gpu) { return std::clamp(watts, gpu.least_w, gpu.most_w); }

}  // namespace

bool PowerShares::knows(const std::string& host, const protocol::NodePower& node) const {
  const auto known = nodes_.find(host);
  return known != nodes_.end() && known->second.safe_w == node.safe_w &&
         std::ranges::equal(known->second.gpus, node.gpus, [](const Gpu& a, const protocol::GpuPowerLimit& b) {
           return a.power.uuid == b.uuid && a.power.least_w == b.least_w && a.power.most_w == b.most_w;
         });
}

bool PowerShares::is_another(const std::string& host, const protocol::NodePower& node, double now_s) const {
  const auto known = nodes_.find(host);
  if (known == nodes_.end() || known->second.is_silent || now_s - known->second.heard_s > kValidS) return false;
  if (node.gpus.empty() || known->second.gpus.empty()) return false;
  return std::ranges::none_of(node.gpus, [&](const protocol::GpuPowerLimit& gpu) {
    return std::ranges::any_of(known->second.gpus, [&](const Gpu& own) { return own.power.uuid == gpu.uuid; });
  });
}

void PowerShares::restore(const std::string& host, const protocol::NodePower& node) {
  Node& known = nodes_[host];
  forget_gpus(known);
  known = {.safe_w = node.safe_w,
           .heard_s = 0,
           .is_silent = true,
           .silent_since_s = 0,
           .gpus = {},
           .limits = {},
           .silence = known.silence};
  for (const protocol::GpuPowerLimit& gpu : node.gpus) {
    take_from_others(host, gpu.uuid);
    known.gpus.push_back({.power = gpu,
                          .held_w = gpu.most_w,
                          .granted_w = 0,
                          .target_w = clamped(node.safe_w, gpu),
                          .wanted_w = node.safe_w,
                          .has_job = false});
  }
  find_limits();
  count_use();
}

/// It is in one machine: that of the agent which was heard of last.
void PowerShares::take_from_others(const std::string& host, const std::string& uuid) {
  std::string& owner = host_of_[uuid];
  if (!owner.empty() && owner != host) {
    std::erase_if(nodes_[owner].gpus, [&](const Gpu& gpu) { return gpu.power.uuid == uuid; });
  }
  owner = host;
}

void PowerShares::forget_gpus(const Node& node) {
  for (const Gpu& gpu : node.gpus) host_of_.erase(gpu.power.uuid);
}

bool PowerShares::forget(const std::string& host) {
  const auto node = nodes_.find(host);
  if (node == nodes_.end()) return false;
  forget_gpus(node->second);
  nodes_.erase(node);
  return true;
}

std::string PowerShares::claimant(const std::string& host, const protocol::NodePower& node, double now_s) const {
  for (const protocol::GpuPowerLimit& gpu : node.gpus) {
    const auto owner = host_of_.find(gpu.uuid);
    if (owner == host_of_.end() || owner->second == host) continue;
    const Node& other = nodes_.at(owner->second);
    if (!other.is_silent && now_s - other.heard_s <= kValidS) return owner->second;
  }
  return {};
}

std::optional<double> PowerShares::most_w(const std::string& uuid) const {
  const auto host = host_of_.find(uuid);
  if (host == host_of_.end()) return std::nullopt;
  const Node& node = nodes_.at(host->second);
  const auto gpu = std::ranges::find_if(node.gpus, [&](const Gpu& of) { return of.power.uuid == uuid; });
  return gpu == node.gpus.end() ? std::nullopt : std::optional(gpu->power.most_w);
}

/// Ranks that still use its GPUs show that a node is there, though its agent is not.
std::vector<std::string> PowerShares::forget_lost(double now_s) {
  std::vector<std::string> lost;
  for (const auto& [host, node] : nodes_) {
    const bool has_job = std::ranges::any_of(node.gpus, &Gpu::has_job);
    if (node.is_silent && !has_job && now_s - node.silent_since_s >= kForgottenS) lost.push_back(host);
  }
  for (const std::string& host : lost) forget(host);
  if (!lost.empty()) {
    find_limits();
    count_use();
  }
  return lost;
}

double PowerShares::slack_w(const Node& node) const {
  double slack_w = std::numeric_limits<double>::infinity();
  for (const std::size_t limit : node.limits) {
    slack_w = std::min(slack_w, limits_[limit].watts - uses_[limit].held_w);
  }
  return std::max(0.0, slack_w);
}

protocol::NodeShares PowerShares::grant(const std::string& host, const protocol::NodePower& node, double now_s) {
  if (!knows(host, node)) restore(host, node);
  Node& known = nodes_[host];
  known.heard_s = now_s;
  known.is_silent = false;
  known.silent_since_s = 0;
  // The agent has set what was granted last, or has let it expire, before it asks again. No limit is below the range.
  for (std::size_t i = 0; i < known.gpus.size(); ++i) {
    known.gpus[i].power.limit_w = std::max(node.gpus[i].limit_w, node.gpus[i].least_w);
  }
  return grant_again(host);
}

protocol::NodeShares PowerShares::grant_again(const std::string& host) {
  if (const auto node = nodes_.find(host); node != nodes_.end()) {
    for (Gpu& gpu : node->second.gpus) grant(node->second, gpu);
  }
  return granted(host);
}

void PowerShares::grant(Node& node, Gpu& gpu) {
  const double before_w = gpu.held_w;
  gpu.held_w = std::max(gpu.power.limit_w, gpu.granted_w);
  for (const std::size_t limit : node.limits) uses_[limit].held_w += gpu.held_w - before_w;
  gpu.granted_w = std::min(gpu.target_w, std::max(gpu.held_w + std::floor(slack_w(node)), gpu.power.least_w));
  const double raise_w = std::max(0.0, gpu.granted_w - gpu.held_w);
  gpu.held_w += raise_w;
  for (const std::size_t limit : node.limits) uses_[limit].held_w += raise_w;
}

protocol::NodeShares PowerShares::granted(const std::string& host) const {
  protocol::NodeShares answer{.valid_s = kValidS, .shares = {}};
  const auto node = nodes_.find(host);
  if (node == nodes_.end()) return answer;
  for (const Gpu& gpu : node->second.gpus) answer.shares.push_back({gpu.power.uuid, gpu.granted_w});
  return answer;
}

void PowerShares::find_limits() {
  for (auto& [host, node] : nodes_) node.limits.clear();
  for (std::size_t limit = 0; limit < limits_.size(); ++limit) {
    const std::set<std::string>& hosts = *limits_[limit].hosts;
    for (const std::string& host : hosts) {
      if (const auto node = nodes_.find(host); node != nodes_.end()) node->second.limits.push_back(limit);
    }
    if (!hosts.empty()) continue;
    for (auto& [host, node] : nodes_) node.limits.push_back(limit);
  }
}

void PowerShares::count_use() {
  uses_.assign(limits_.size(), {});
  for (const auto& [host, node] : nodes_) {
    for (const std::size_t limit : node.limits) {
      Use& use = uses_[limit];
      ++use.nodes;
      use.silent_nodes += node.is_silent ? 1 : 0;
      for (const Gpu& gpu : node.gpus) {
        use.held_w += gpu.held_w;
        if (!gpu.has_job) use.reserved_w += node.is_silent ? gpu.power.most_w : clamped(node.safe_w, gpu.power);
        if (gpu.has_job && node.is_silent) use.reserved_w += std::max(0.0, gpu.power.most_w - gpu.wanted_w);
      }
    }
  }
}

/// Of the nodes that are heard of: every GPU the same share of what it wants, and no less than what it takes without
/// a share, where all can have that.
void PowerShares::set_targets(std::size_t limit, const std::vector<Node*>& members) {
  double left_w = limits_[limit].watts;
  for (const Node* node : members) {
    if (!node->is_silent) continue;
    for (const Gpu& gpu : node->gpus) left_w -= gpu.held_w;
  }
  bool above_safe = true;
  const auto part_w = [&above_safe](double share, const Node& node, const Gpu& gpu) {
    const double least_w = above_safe ? std::max(node.safe_w, gpu.power.least_w) : gpu.power.least_w;
    // Whole watts, so that limits are not written again for every small change.
    return clamped(std::max(std::floor(share * gpu.wanted_w + kRoundingW), least_w), gpu.power);
  };
  const auto fits = [&](double share) {
    double all_w = 0;
    for (const Node* node : members) {
      if (node->is_silent) continue;
      for (const Gpu& gpu : node->gpus) all_w += part_w(share, *node, gpu);
    }
    return all_w <= left_w;
  };
  above_safe = fits(0);
  double low = 0;
  double high = kMostShare;
  if (fits(high)) low = high;
  for (int i = 0; i < kBisections && low < high; ++i) {
    const double middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  for (Node* node : members) {
    for (Gpu& gpu : node->gpus) gpu.target_w = std::min(gpu.target_w, part_w(low, *node, gpu));
  }
}

void PowerShares::divide(std::vector<ShareLimit> limits, const std::unordered_map<std::string, double>& wanted_w,
                         double now_s) {
  limits_ = std::move(limits);
  find_limits();
  std::vector<std::vector<Node*>> members(limits_.size());
  for (auto& [host, node] : nodes_) {
    node.is_silent = node.is_silent || now_s - node.heard_s > kValidS;
    if (node.is_silent && node.silent_since_s == 0) node.silent_since_s = now_s;
    for (Gpu& gpu : node.gpus) {
      const auto wanted = wanted_w.find(gpu.power.uuid);
      gpu.has_job = wanted != wanted_w.end();
      gpu.wanted_w = clamped(gpu.has_job ? wanted->second : node.safe_w, gpu.power);
      gpu.target_w = gpu.power.most_w;
      if (node.is_silent) gpu.held_w = gpu.power.most_w;
    }
    for (const std::size_t limit : node.limits) members[limit].push_back(&node);
  }
  for (std::size_t limit = 0; limit < limits_.size(); ++limit) set_targets(limit, members[limit]);
  count_use();
}

PowerShares::NodeCount PowerShares::nodes() const {
  NodeCount count;
  for (const auto& [host, node] : nodes_) ++(node.is_silent ? count.silent : count.heard);
  return count;
}

std::vector<PowerShares::NodeChange> PowerShares::take_changes(double now_s) {
  std::vector<NodeChange> changes;
  for (auto& [host, node] : nodes_) {
    if (const auto is_silent = node.silence.observe(node.is_silent, now_s, kSilenceLastsS)) {
      changes.push_back({host, *is_silent});
    }
  }
  return changes;
}

}  // namespace lowgear::server
