#include "estimating/sampling/sampling_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "base/core/error.h"
#include "base/core/probability.h"
#include "estimating/sampling/sampled_operator.h"

namespace lowgear::sampling {
namespace {

constexpr std::size_t kMostValues = 128;
constexpr std::size_t kMostPoints = 200'000;
/// As many are looked at in a few seconds.
constexpr double kMostCombinations = 1e7;

struct GridList {
  std::string_view option;
  std::vector<std::int64_t> OperatorGrid::*values;
  std::int64_t largest;
  std::size_t fewest = 1;
};

constexpr auto kLists = std::to_array<GridList>({
    {"--hidden", &OperatorGrid::hidden, 1 << 17},
    {"--tp", &OperatorGrid::tp, 1024},
    {"--microbatch", &OperatorGrid::microbatch, 4096},
    {"--seq", &OperatorGrid::sequence, 1 << 20},
    {"--head-dim", &OperatorGrid::head_dim, 1024},
    {"--heads", &OperatorGrid::heads, 1 << 17, 0},
    {"--parameters", &OperatorGrid::parameters, std::int64_t{1} << 36},
    {"--layers", &OperatorGrid::layers, 4096},
    {"--experts", &OperatorGrid::experts, 1 << 16},
    {"--expert-width", &OperatorGrid::expert_width, 1 << 17},
    {"--experts-per-token", &OperatorGrid::experts_per_token, 1 << 16},
});

constexpr std::array<SampledCollective, kSampledCollectives> kCollectives = {
    SampledCollective::all_reduce, SampledCollective::all_gather, SampledCollective::reduce_scatter,
    SampledCollective::send};

bool uses(const OperatorDescription& description, ShapeColumn column) {
  return std::ranges::find(description.columns, column) != description.columns.end();
}

/// Values of a grid for the operator's column; what it has no use for is 1.
std::vector<std::int64_t> values_of(const OperatorDescription& description, ShapeColumn column,
                                    const std::vector<std::int64_t>& values) {
  return uses(description, column) ? values : std::vector<std::int64_t>{1};
}

/// Whether ranks, heads and experts share the sizes without a rest. A rank of experts has at least as many as a token
/// uses.
bool divides(const OperatorDescription& description, const OperatorShape& shape) {
  const bool has_hidden = uses(description, ShapeColumn::hidden);
  if (uses(description, ShapeColumn::heads)) {
    if (shape.heads < 1 || shape.heads % shape.tp != 0) return false;
    return !has_hidden || shape.hidden % shape.heads == 0;
  }
  if (uses(description, ShapeColumn::experts)) {
    if (shape.experts % shape.tp != 0 || shape.experts_per_token > shape.experts / shape.tp) return false;
  }
  return !has_hidden || shape.hidden % shape.tp == 0;
}

bool is_within(const SampleWork& work, const SampleBounds& bounds) {
  return work.flops <= bounds.flops && work.traffic_bytes <= bounds.traffic_bytes &&
         work.footprint_bytes <= bounds.footprint_bytes;
}

using GridAxes = std::array<std::vector<std::int64_t>, 10>;
using GridPosition = std::array<std::size_t, std::tuple_size_v<GridAxes>>;

/// The next combination, the last axis varying fastest; false after the last one.
bool advance(GridPosition& position, const GridAxes& axes) {
  for (std::size_t axis = axes.size(); axis-- > 0;) {
    if (++position[axis] < axes[axis].size()) return true;
    position[axis] = 0;
  }
  return false;
}

void require_few_combinations(const OperatorDescription& description, const GridAxes& axes) {
  double combinations = 1;
  for (const auto& values : axes) combinations *= static_cast<double>(values.size());
  if (combinations <= kMostCombinations) return;
  throw InputError(fmt::format("{}: {:.2g} combinations of sizes; give fewer values", description.name, combinations));
}

/// Calls with every combination of the grid that the operator can have.
template <typename Call>
void each_combination(const OperatorDescription& description, const OperatorGrid& grid, const Call& call) {
  using enum ShapeColumn;
  const bool has_heads = uses(description, heads);
  const bool by_number = has_heads && !grid.heads.empty();
  // Scores have heads and no width: where no numbers of heads are given, a hidden size stands for its.
  const bool has_hidden = uses(description, hidden) || (has_heads && !by_number);
  const GridAxes axes = {has_hidden ? grid.hidden : std::vector<std::int64_t>{1},
                         values_of(description, tp, grid.tp),
                         values_of(description, microbatch, grid.microbatch),
                         values_of(description, sequence, grid.sequence),
                         by_number ? grid.heads : values_of(description, heads, grid.head_dim),
                         values_of(description, parameters, grid.parameters),
                         values_of(description, layers, grid.layers),
                         values_of(description, experts, grid.experts),
                         values_of(description, expert_width, grid.expert_width),
                         values_of(description, experts_per_token, grid.experts_per_token)};
  require_few_combinations(description, axes);
  GridPosition position{};
  do {
    const auto value = [&](std::size_t axis) { return axes[axis][position[axis]]; };
    const std::int64_t width = value(0);
    const std::int64_t by_width = width % value(4) == 0 ? width / value(4) : 0;
    const std::int64_t with_heads = by_number ? value(4) : by_width;
    const OperatorShape shape = {.tp = value(1),
                                 .microbatch = value(2),
                                 .heads = has_heads ? with_heads : 1,
                                 .sequence = value(3),
                                 .hidden = width,
                                 .parameters = value(5),
                                 .layers = value(6),
                                 .experts = value(7),
                                 .expert_width = value(8),
                                 .experts_per_token = value(9)};
    if (divides(description, shape)) call(shape);
  } while (advance(position, axes));
}

/// Seconds on some GPU of today, to compare points by.
double rough_time_s(const SampleWork& work) {
  constexpr double kFlopsPerS = 5e14;
  constexpr double kBytesPerS = 2e12;
  return std::max(work.flops / kFlopsPerS, work.traffic_bytes / kBytesPerS);
}

void mark_energy(std::vector<PlannedSample>& plan, SampledOperator op, SampleType type, int points) {
  constexpr double kLongEnoughS = 3e-4;
  std::vector<std::pair<double, std::size_t>> long_ones;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const double time_s = rough_time_s(work_of(op, plan[i].shape, type));
    if (time_s >= kLongEnoughS) long_ones.emplace_back(time_s, i);
  }
  std::ranges::sort(long_ones);
  const std::size_t count = std::min(static_cast<std::size_t>(points), long_ones.size());
  for (std::size_t i = 0; i < count; ++i)
    plan[long_ones[(2 * i + 1) * long_ones.size() / (2 * count)].second].energy = true;
}

}  // namespace

OperatorGrid default_grid() {
  return {.hidden = {2048, 4096, 5120, 8192, 12288, 16384},
          .tp = {1, 2, 4, 8},
          .microbatch = {1, 2, 4, 8},
          .sequence = {1024, 2048, 4096, 8192},
          .head_dim = {128, 64},
          .parameters = {1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30},
          .layers = {4, 6, 8, 10, 12},
          .experts = {64},
          .expert_width = {1536, 14336},
          .experts_per_token = {2, 8}};
}

OperatorGrid quick_grid() {
  return {.hidden = {4096, 8192},
          .tp = {1, 4},
          .microbatch = {1, 4},
          .sequence = {2048, 4096},
          .head_dim = {128},
          .parameters = {1 << 24, 1 << 28},
          .layers = {4},
          .experts = {16},
          .expert_width = {4096},
          .experts_per_token = {2}};
}

void require_valid(const OperatorGrid& grid) {
  for (const GridList& list : kLists) {
    const std::vector<std::int64_t>& values = grid.*list.values;
    if (values.size() < list.fewest || values.size() > kMostValues) {
      throw InputError(fmt::format("{}: {} values; give 1 to {}", list.option, values.size(), kMostValues));
    }
    for (const std::int64_t value : values) {
      if (value < 1 || value > list.largest) {
        throw InputError(fmt::format("{}: {} is not in 1 to {}", list.option, value, list.largest));
      }
    }
  }
}

std::vector<PlannedSample> plan_samples(SampledOperator op, SampleType type, const OperatorGrid& grid,
                                        int energy_points, const SampleBounds& bounds) {
  require_valid(grid);
  const OperatorDescription& description = describe(op);
  std::vector<PlannedSample> plan;
  std::set<KernelSizes> known;
  each_combination(description, grid, [&](const OperatorShape& shape) {
    if (!is_within(work_of(op, shape, type), bounds)) return;
    if (known.insert(kernel_sizes(op, shape)).second) plan.push_back({.shape = shape});
    if (plan.size() > kMostPoints) {
      throw InputError(fmt::format("{}: more than {} points; give fewer values", description.name, kMostPoints));
    }
  });
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  order.reserve(plan.size());
  for (std::size_t i = 0; i < plan.size(); ++i) order.emplace_back(random_bits(i), i);
  std::ranges::sort(order);
  std::vector<PlannedSample> mixed;
  mixed.reserve(plan.size());
  for (const auto& [rank, i] : order) mixed.push_back(plan[i]);
  mark_energy(mixed, op, type, energy_points);
  return mixed;
}

std::string_view name(SampledCollective collective) {
  constexpr std::array<std::string_view, kSampledCollectives> kNames = {"allreduce", "allgather", "reduce_scatter",
                                                                        "p2p"};
  return kNames.at(static_cast<std::size_t>(collective));
}

std::vector<SampledCollective> collectives_named(std::string_view list, std::string_view option) {
  constexpr std::array<std::string_view, kSampledCollectives + 1> kWords = {"allreduce", "allgather", "reduce_scatter",
                                                                            "p2p", "all"};
  std::set<SampledCollective> meant;
  take_words(list, option, "collective", kWords, [&meant](std::string_view word) {
    bool found = false;
    for (const SampledCollective collective : kCollectives) {
      if (word != "all" && word != name(collective)) continue;
      meant.insert(collective);
      found = true;
    }
    return found;
  });
  return {meant.begin(), meant.end()};
}

std::vector<PlannedMessage> plan_messages(SampledCollective collective, SampleType type, int ranks,
                                          const MessageSizes& sizes, int energy_points) {
  const bool shared = collective == SampledCollective::all_gather || collective == SampledCollective::reduce_scatter;
  const std::int64_t element_bytes = std::int64_t{bytes_of(type)} * (shared ? ranks : 1);
  std::vector<PlannedMessage> plan;
  for (std::int64_t bytes = sizes.smallest; bytes <= sizes.largest; bytes *= 2) {
    plan.push_back({.elements = std::max<std::int64_t>(bytes / element_bytes, 1)});
  }
  constexpr std::size_t kStep = 4;
  for (std::size_t i = 0; i < static_cast<std::size_t>(energy_points) && i * kStep < plan.size(); ++i) {
    plan[plan.size() - 1 - i * kStep].energy = true;
  }
  return plan;
}

}  // namespace lowgear::sampling
