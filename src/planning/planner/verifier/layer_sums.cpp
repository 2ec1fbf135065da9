#include "planning/planner/verifier/layer_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/formats/csv.h"

namespace lowgear::planner::verifier {
namespace {

/// Relative difference of sums that were added in another order.
constexpr double kSumRounding = 1e-9;

struct LayerRow {
  std::string place;    ///< the layer, `first` or `last`
  long long layer = 0;  ///< what the first stage has besides counts as of the first layer, likewise the last
  std::string instruction;
  long long clock_mhz = 0;
  double time_s = 0;
  double energy_j = 0;
};

struct Layers {
  std::vector<LayerRow> rows;
  long long count = 0;
};

struct Cost {
  double time_s = 0;
  double energy_j = 0;
  std::size_t parts = 0;  ///< layers and ends in it
};

/// Sums over the layers of each rank.
struct RankSums {
  std::map<std::tuple<int, std::string, long long>, Cost> at_clock;  ///< by rank, instruction and clock
  /// Places that have the instruction at any clock, all of which a sum must have.
  std::map<std::pair<int, std::string>, std::set<std::string>> parts;
};

bool is_end(const std::string& place) { return place == "first" || place == "last"; }

long long layer_of(const CsvTable& table, std::size_t row, std::size_t column) {
  const long long number = table.integer(row, column);
  if (number < 0 || number >= profile::kMaxStages) {
    throw_input_error(table.where(row, column), fmt::format("there is no layer {}", number), "plan again");
  }
  return number;
}

LayerRow read_row(const CsvTable& table, std::size_t row) {
  const std::size_t place = table.column("layer");
  LayerRow read{.place = table.text(row, place),
                .layer = 0,
                .instruction = table.text(row, table.column("instruction")),
                .clock_mhz = table.integer(row, table.column("frequency")),
                .time_s = table.number(row, table.column("time")),
                .energy_j = table.number(row, table.column("energy"))};
  if (!is_end(read.place)) {
    read.layer = layer_of(table, row, place);
    read.place = fmt::to_string(read.layer);
  }
  if (read.time_s <= 0 || read.energy_j <= 0) {
    throw_input_error(table.where(row, place), "a time or an energy is not above 0", "plan again");
  }
  return read;
}

/// Each layer has a forward, and nothing is there twice.
Layers read_layers(const PlanFolder::File& file) {
  const CsvTable table(file.text, file.name);
  const std::size_t place = table.column("layer");
  Layers layers;
  std::set<std::tuple<std::string, std::string, long long>> seen;
  std::set<long long> with_forward;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const LayerRow& read = layers.rows.emplace_back(read_row(table, row));
    if (!seen.insert({read.place, read.instruction, read.clock_mhz}).second) {
      throw_input_error(table.where(row, place), "occurs twice", "plan again");
    }
    if (is_end(read.place)) continue;
    layers.count = std::max(layers.count, read.layer + 1);
    if (read.instruction == name(OpKind::forward)) with_forward.insert(read.layer);
  }
  if (std::cmp_not_equal(with_forward.size(), layers.count)) {
    throw_input_error({file.name, 0, 0},
                      fmt::format("{} of {} layers have a forward", with_forward.size(), layers.count), "plan again");
  }
  for (LayerRow& row : layers.rows) {
    if (row.place == "last") row.layer = std::max(layers.count - 1, 0LL);
  }
  return layers;
}

RankSums sums_over(const Layers& layers, const std::vector<int>& partition) {
  std::vector<int> rank_of;
  for (std::size_t rank = 0; rank < partition.size(); ++rank) {
    rank_of.insert(rank_of.end(), static_cast<std::size_t>(partition[rank]), static_cast<int>(rank));
  }
  RankSums sums;
  for (const LayerRow& row : layers.rows) {
    const int rank = rank_of.at(static_cast<std::size_t>(row.layer));
    Cost& sum = sums.at_clock[{rank, row.instruction, row.clock_mhz}];
    sum.time_s += row.time_s;
    sum.energy_j += row.energy_j;
    ++sum.parts;
    sums.parts[{rank, row.instruction}].insert(row.place);
  }
  return sums;
}

void check_sums(const Layers& layers, const std::vector<int>& partition, const NamedProfile& profile,
                Findings& findings) {
  const RankSums sums = sums_over(layers, partition);
  const auto near = [](double a, double b) { return std::abs(a - b) <= kSumRounding * std::abs(b); };
  for (const auto& [stage, kind, rows] : profile.stages->ops()) {
    const std::string instruction(name(kind));
    const auto parts = sums.parts.find({stage, instruction});
    const std::size_t all = parts == sums.parts.end() ? 0 : parts->second.size();
    for (const profile::Measurement& row : rows) {
      const auto found = sums.at_clock.find({stage, instruction, row.clock_mhz});
      const Cost sum = found == sums.at_clock.end() ? Cost{} : found->second;
      if (sum.parts == all && all > 0 && near(sum.time_s, row.time_s) && near(sum.energy_j, row.energy_j)) continue;
      findings.add(fmt::format(
          "{}: stage {}, {} at {} MHz states {} s and {} J, but {} of the {} parts of its layers sum to {} s and {} J",
          profile.name, stage, instruction, row.clock_mhz, row.time_s, row.energy_j, sum.parts, all, sum.time_s,
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

int check_partition(const JsonView& partition, const PlanFolder::File& layers, const NamedProfile& given,
                    const NamedProfile& chosen, Findings& findings) {
  const Layers read = read_layers(layers);
  const int ranks = chosen.stages->stages();
  check_sums(read, stated_layers(partition.at("given"), ranks, read.count), given, findings);
  check_sums(read, stated_layers(partition.at("chosen"), ranks, read.count), chosen, findings);
  return static_cast<int>(read.count);
}

}  // namespace lowgear::planner::verifier
