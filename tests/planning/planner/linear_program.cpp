#include "planning/planner/linear_program.h"

#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <cstddef>
#include <stdexcept>

namespace lowgear::planner {
namespace {

/// Milliseconds keep times and energies within a few orders of magnitude of each other.
constexpr double kMsPerSecond = 1e3;

constexpr double kTolerance = 1e-9;

}  // namespace

struct LinearProgram::Model {
  ClpSimplex simplex;
  int end_column = 0;
  double fixed_energy_j = 0;  ///< with every op at its fastest
};

namespace {

/// A linear program while it is put together.
struct Parts {
  std::vector<double> column_upper;
  std::vector<double> cost;
  std::vector<double> row_lower;
  std::vector<int> row_of;
  std::vector<int> column_of;
  std::vector<double> element;

  int add_column(double upper, double column_cost) {
    column_upper.push_back(upper);
    cost.push_back(column_cost);
    return static_cast<int>(cost.size()) - 1;
  }
  void add_element(int column, double value) {
    row_of.push_back(static_cast<int>(row_lower.size()));
    column_of.push_back(column);
    element.push_back(value);
  }
  void end_row(double lower) { row_lower.push_back(lower); }

  void load(ClpSimplex& simplex) const {
    const CoinPackedMatrix matrix(true, row_of.data(), column_of.data(), element.data(),
                                  static_cast<CoinBigIndex>(element.size()));
    const std::vector<double> column_lower(cost.size(), 0);
    const std::vector<double> row_upper(row_lower.size(), COIN_DBL_MAX);
    simplex.loadProblem(matrix, column_lower.data(), column_upper.data(), cost.data(), row_lower.data(),
                        row_upper.data());
  }
};

}  // namespace

LinearProgram::LinearProgram(const std::vector<std::vector<CostCorner>>& corners,
                             std::span<const std::pair<int, int>> edges, double blocking_power_w)
    : model_(std::make_unique<Model>()) {
  Parts parts;
  std::vector<int> start_column;
  std::vector<std::vector<int>> piece_columns(corners.size());
  for (std::size_t op = 0; op < corners.size(); ++op) {
    start_column.push_back(parts.add_column(COIN_DBL_MAX, 0));
    model_->fixed_energy_j += corners[op].front().energy_j;
    for (std::size_t k = 1; k < corners[op].size(); ++k) {
      const double width_ms = (corners[op][k].time_s - corners[op][k - 1].time_s) * kMsPerSecond;
      const double change_j = corners[op][k].energy_j - corners[op][k - 1].energy_j;
      piece_columns[op].push_back(parts.add_column(width_ms, change_j / width_ms));
    }
  }
  model_->end_column = parts.add_column(COIN_DBL_MAX, blocking_power_w / kMsPerSecond);
  const auto add_precedence = [&](std::size_t before, int after_column) {
    parts.add_element(after_column, 1);
    parts.add_element(start_column[before], -1);
    for (const int piece : piece_columns[before]) parts.add_element(piece, -1);
    parts.end_row(corners[before].front().time_s * kMsPerSecond);
  };
  for (const auto& [before, after] : edges) {
    add_precedence(static_cast<std::size_t>(before), start_column[static_cast<std::size_t>(after)]);
  }
  for (std::size_t op = 0; op < corners.size(); ++op) add_precedence(op, model_->end_column);

  model_->simplex.setLogLevel(0);
  parts.load(model_->simplex);
  model_->simplex.setPrimalTolerance(kTolerance);
  model_->simplex.setDualTolerance(kTolerance);
}

LinearProgram::~LinearProgram() = default;

double LinearProgram::least_energy_j(double deadline_s) {
  ClpSimplex& simplex = model_->simplex;
  simplex.setColumnUpper(model_->end_column, deadline_s * kMsPerSecond);
  simplex.dual();
  if (!simplex.isProvenOptimal()) throw std::runtime_error("Clp found no optimal solution");
  return model_->fixed_energy_j + simplex.objectiveValue();
}

LinearProgram linear_program_of(const ProblemInstance& instance) {
  std::vector<std::vector<CostCorner>> corners;
  for (int op = 0; op < instance.op_count(); ++op) {
    const ConvexCost& cost = instance.cost(op);
    std::vector<CostCorner>& of_op = corners.emplace_back();
    of_op.push_back({s_from_ps(cost.time_ps.front()), j_from_zj(cost.energy_at_fastest_zj)});
    for (std::size_t k = 0; k < cost.slope_nw.size(); ++k) {
      const double width_s = s_from_ps(cost.time_ps[k + 1] - cost.time_ps[k]);
      of_op.push_back({s_from_ps(cost.time_ps[k + 1]), of_op.back().energy_j - w_from_nw(cost.slope_nw[k]) * width_s});
    }
  }
  std::vector<std::pair<int, int>> edges;
  for (const schedule::DagEdge& edge : instance.edges) edges.emplace_back(edge.from, edge.to);
  return {corners, edges, w_from_nw(instance.blocking_power_nw)};
}

}  // namespace lowgear::planner
