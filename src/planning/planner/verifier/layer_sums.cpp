#include "planning/planner/verifier/layer_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/core/formats/csv.h"

namespace lowgear::planner::verifier {
namespace {

/// Relative difference of sums that were added in another order.
constexpr double kSumRounding = 1e-9;

struct Cost {
  double time_s = 0;
  double energy_j = 0;
  int parts = 0;  ///< layers and ends in it
};

struct LayerRow {
  long long layer = 0;
  std::string instruction;
  long long clock_mhz = 0;
  double time_s = 0;
  double energy_j = 0;
};

using Key = std::tuple<int, std::string, long long>;  // rank, instruction, clock

struct Layers {
  std::vector<LayerRow> rows;  ///< what the first stage has besides counts as of the first layer, likewise the last
  long long count = 0;
};

long long layer_of(const CsvTable& table, std::size_t row, std::size_t column) {
  const long long number = table.integer(row, column);
  if (number < 0 || number >= profile::kMaxStages) {
    throw_input_error(table.where(row, column), fmt::format("there is no layer {}", number), "plan again");
  }
  return number;
}

Layers read_layers(const PlanFolder::File& file) {
  const CsvTable table(file.text, file.name);
  const std::size_t layer = table.column("layer");
  const std::size_t instruction = table.column("instruction");
  const std::size_t clock = table.column("frequency");
  const std::size_t time = table.column("time");
  const std::size_t energy = table.column("energy");
  Layers read;
  std::vector<std::size_t> of_last;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& word = table.text(row, layer);
    if (word == "last") of_last.push_back(row);
    const long long number = word == "first" || word == "last" ? 0 : layer_of(table, row, layer);
    if (word != "first" && word != "last") read.count = std::max(read.count, number + 1);
    read.rows.push_back({number, table.text(row, instruction), table.integer(row, clock), table.number(row, time),
                         table.number(row, energy)});
  }
  for (const std::size_t row : of_last) read.rows[row].layer = std::max(read.count - 1, 0LL);
  return read;
}

std::map<Key, Cost> sums_over(const Layers& layers, const std::vector<int>& partition) {
  std::vector<int> rank_of;
  for (std::size_t rank = 0; rank < partition.size(); ++rank) {
    rank_of.insert(rank_of.end(), static_cast<std::size_t>(partition[rank]), static_cast<int>(rank));
  }
  std::map<Key, Cost> sums;
  for (const LayerRow& row : layers.rows) {
    Cost& sum = sums[{rank_of[static_cast<std::size_t>(row.layer)], row.instruction, row.clock_mhz}];
    sum.time_s += row.time_s;
    sum.energy_j += row.energy_j;
    ++sum.parts;
  }
  return sums;
}

/// How many parts of a rank have the kind at any clock: a row is a sum of all of them.
int most_parts(const std::map<Key, Cost>& sums, int rank, const std::string& instruction) {
  int most = 0;
  for (const auto& [key, cost] : sums) {
    if (std::get<0>(key) == rank && std::get<1>(key) == instruction) most = std::max(most, cost.parts);
  }
  return most;
}

void check_sums(const Layers& layers, const std::vector<int>& partition, const NamedProfile& profile,
                Findings& findings) {
  const std::map<Key, Cost> sums = sums_over(layers, partition);
  const auto near = [](double a, double b) { return std::abs(a - b) <= kSumRounding * std::abs(b); };
  for (const auto& [stage, kind, rows] : profile.stages->ops()) {
    const std::string instruction(name(kind));
    const int parts = most_parts(sums, stage, instruction);
    for (const profile::Measurement& row : rows) {
      const auto found = sums.find({stage, instruction, row.clock_mhz});
      const Cost sum = found == sums.end() ? Cost{} : found->second;
      if (sum.parts == parts && parts > 0 && near(sum.time_s, row.time_s) && near(sum.energy_j, row.energy_j)) continue;
      findings.add(fmt::format("{}: stage {}, {} at {} MHz states {} s and {} J, but its layers sum to {} s and {} J",
                               profile.name, stage, instruction, row.clock_mhz, row.time_s, row.energy_j, sum.time_s,
                               sum.energy_j));
      return;
    }
  }
}

std::vector<int> stated_layers(const JsonView& view, int ranks, long long layers) {
  std::vector<int> counts;
  long long sum = 0;
  for (std::size_t rank = 0; rank < view.size(); ++rank) {
    counts.push_back(view.at(rank).integer_in(1, profile::kMaxStages));
    sum += counts.back();
  }
  if (counts.size() != static_cast<std::size_t>(ranks) || sum != layers) {
    view.fail(fmt::format("expected {} layers on {} ranks", layers, ranks));
  }
  return counts;
}

}  // namespace

void check_partition(const JsonView& partition, const PlanFolder::File& layers, const NamedProfile& given,
                     const NamedProfile& chosen, Findings& findings) {
  const Layers read = read_layers(layers);
  const int ranks = chosen.stages->stages();
  check_sums(read, stated_layers(partition.at("given"), ranks, read.count), given, findings);
  check_sums(read, stated_layers(partition.at("chosen"), ranks, read.count), chosen, findings);
}

}  // namespace lowgear::planner::verifier
