/// How long it takes to divide the power of a cluster among its jobs, and how far the split is from its bound.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "measurement.h"
#include "planning/budget/power_split.h"

namespace lowgear::bench {
namespace {

constexpr double kReachS = 0.1;  // of the second in which the server follows budgets
constexpr std::size_t kNodesPerRow = 20;

struct Fleet {
  std::vector<budget::BudgetJob> jobs;
  std::vector<budget::PowerLimit> limits;
};

/// A frontier of 30 vertices, as an 8-stage pipeline has it: 2.3 % of energy for the first per cent of time.
budget::PowerCurve frontier(double gpus, double time_s) {
  std::vector<budget::CurvePoint> vertices;
  for (int i = 0; i < 30; ++i) {
    const double longer = 0.4 * i / 29;
    const double saved = 0.3 * (1 - std::pow(1 - longer / 0.4, 2.5));
    vertices.push_back({time_s * (1 + longer), 500 * gpus * time_s * (1 - saved)});
  }
  return {vertices, time_s * 2};
}

/// Jobs of 1 to 32 nodes of 8 GPUs each, on neighbouring nodes; limits of the cluster, of rows of 20 nodes and of
/// nodes, of which the cluster's, every second row's and every tenth node's bind.
Fleet fleet(std::size_t nodes) {
  std::mt19937 random(1);
  Fleet result;
  const std::size_t rows = (nodes + kNodesPerRow - 1) / kNodesPerRow;
  std::vector<double> node_w(nodes, 8 * 500.0);
  result.limits.push_back({.name = "cluster", .watts = 0.85 * 4000 * static_cast<double>(nodes)});
  for (std::size_t row = 0; row < rows; ++row) {
    const double there = static_cast<double>(std::min(kNodesPerRow, nodes - row * kNodesPerRow));
    result.limits.push_back({.name = "row", .watts = (row % 2 == 0 ? 0.8 : 1.2) * 4000 * there});
  }
  for (std::size_t node = 0; node < nodes; ++node) {
    result.limits.push_back({.name = "node", .watts = node % 10 == 0 ? 3100.0 : 6000.0});
  }
  for (std::size_t first = 0; first < nodes;) {
    const std::size_t spread = std::min<std::size_t>(std::size_t{1} << random() % 6, nodes - first);
    std::vector<budget::LimitShare> shares = {{0, 1}};
    std::vector<double> of_row(rows);
    for (std::size_t node = first; node < first + spread; ++node) {
      shares.push_back({1 + rows + node, 1 / static_cast<double>(spread)});
      of_row[node / kNodesPerRow] += 1 / static_cast<double>(spread);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      if (of_row[row] > 0) shares.push_back({1 + row, std::min(1.0, of_row[row])});
    }
    const double gpus = 8 * static_cast<double>(spread);
    result.jobs.push_back(
        {.curve = frontier(gpus, 2 + static_cast<double>(random() % 20)), .weight = gpus, .limits = shares});
    first += spread;
  }
  return result;
}

void run() {
  fmt::print("| nodes | jobs | limits | time of a split | loss | bound |\n|---|---|---|---|---|---|\n");
  double longest_s = 0;
  for (const std::size_t nodes : {10U, 100U, 1000U}) {
    const Fleet of = fleet(nodes);
    budget::PowerSplit split;
    std::vector<double> times_s;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      split = budget::split_power(of.jobs, of.limits);
      times_s.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::ranges::sort(times_s);
    longest_s = std::max(longest_s, times_s[2]);
    fmt::print("| {} | {} | {} | {:.2f} ms | {:.4f} GPUs | {:.4f} |\n", nodes, of.jobs.size(), of.limits.size(),
               times_s[2] * 1e3, split.loss, split.least_loss);
  }
  print_target("split of 1,000 nodes", fmt::format("{:.1f} ms", longest_s * 1e3),
               fmt::format("≤ {:.0f} ms", kReachS * 1e3), longest_s <= kReachS);
}

}  // namespace
}  // namespace lowgear::bench

int main() { return lowgear::bench::run_study(lowgear::bench::run); }
