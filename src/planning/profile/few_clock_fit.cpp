#include "planning/profile/few_clock_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/core/error.h"
#include "base/core/units.h"
#include "planning/profile/regression/non_negative_least_squares.h"

namespace lowgear::profile {
namespace {

constexpr int kTransitionSteps = 16;
constexpr int kThrottleSteps = 16;
/// Cells that the transition clock is found from: a property of the GPU needs no more.
constexpr std::size_t kMaxTransitionCells = 64;
/// Weight of the residuals of all cells together, in increments of a cell's own.
constexpr double kPooledWeight = 2;

struct Cell {
  int stage = 0;
  OpKind kind = OpKind::forward;
  std::vector<Measurement> rows;  ///< lowest clock first
};

std::vector<Cell> cells_of(const StageProfile& profile) {
  std::vector<Cell> cells;
  for (const auto& [stage, kind, rows] : profile.ops()) {
    if (static_cast<int>(rows.size()) < kMinMeasuredClocks) {
      throw InputError(fmt::format("stage {} {} was measured at {} clocks; measure at least {} to predict others",
                                   stage, name(kind), rows.size(), kMinMeasuredClocks));
    }
    cells.push_back({stage, kind, {rows.rbegin(), rows.rend()}});
  }
  return cells;
}

double power_w(const Measurement& row) { return row.energy_j / row.time_s; }

/// Least squares of relative errors: rows of `terms` times x should be 1. Returns the sum of squares.
double fit_relative(const Eigen::MatrixXd& terms, Eigen::VectorXd& values) {
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(terms.rows());
  values = solve_non_negative(terms.transpose() * terms, terms.transpose() * ones).values;
  return (terms * values - ones).squaredNorm();
}

double above(double clock_mhz, double transition_mhz) { return std::max(0.0, clock_mhz - transition_mhz); }

struct Candidate {
  ClockModel model;
  double squares = std::numeric_limits<double>::infinity();  ///< of relative errors, times and powers
};

Candidate fit_with(const Cell& cell, double transition_mhz, double throttle_mhz) {
  const auto count = static_cast<Eigen::Index>(cell.rows.size());
  Eigen::MatrixXd time_terms(count, 2);
  Eigen::MatrixXd power_terms(count, 3);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Measurement& row = cell.rows[static_cast<std::size_t>(i)];
    const double effective_mhz = std::min<double>(row.clock_mhz, throttle_mhz);
    const double bend = above(effective_mhz, transition_mhz);
    time_terms.row(i) << 1 / row.time_s, 1 / (effective_mhz * row.time_s);
    power_terms.row(i) << 1 / power_w(row), effective_mhz / power_w(row), bend * bend / power_w(row);
  }
  Eigen::VectorXd time;
  Eigen::VectorXd power;
  const double squares = fit_relative(time_terms, time) + fit_relative(power_terms, power);
  if (!(power(0) + power(1) > 0)) return {};  // no power below the transition
  return {{cell.stage, cell.kind, time(0), time(1), power(0), power(1), power(2), transition_mhz, throttle_mhz},
          squares};
}

/// The best throttle clock for a given transition: none, or one in the upper half of what was measured. From the top,
/// so that throttling needs evidence.
Candidate fit_cell(const Cell& cell, double transition_mhz) {
  const double top_mhz = cell.rows.back().clock_mhz;
  const std::size_t middle = cell.rows.size() / 2;
  const double bottom_mhz = cell.rows[middle].clock_mhz;
  Candidate best;
  for (int step = 0; step <= kThrottleSteps; ++step) {
    const double throttle_mhz = top_mhz - (top_mhz - bottom_mhz) * step / kThrottleSteps;
    const Candidate candidate = fit_with(cell, transition_mhz, throttle_mhz);
    if (candidate.squares < best.squares * (1 - 1e-9)) best = candidate;
    if (top_mhz == bottom_mhz) break;
  }
  return best;
}

ClockModel model_of(const Cell& cell, double transition_mhz) {
  const Candidate best = fit_cell(cell, transition_mhz);
  if (!std::isfinite(best.squares)) {
    throw InputError(fmt::format("stage {} {}: times or energies of its clocks are too far apart for a curve",
                                 cell.stage, name(cell.kind)));
  }
  return best.model;
}

/// The clock at which power begins to bend that explains all cells best.
double find_transition(std::span<const Cell> cells) {
  double lowest_mhz = std::numeric_limits<double>::infinity();
  double highest_mhz = 0;
  for (const Cell& cell : cells) {
    lowest_mhz = std::min<double>(lowest_mhz, cell.rows.front().clock_mhz);
    highest_mhz = std::max<double>(highest_mhz, cell.rows.back().clock_mhz);
  }
  const std::size_t stride = (cells.size() + kMaxTransitionCells - 1) / kMaxTransitionCells;
  double best_mhz = lowest_mhz;
  double best_squares = std::numeric_limits<double>::infinity();
  for (int step = 0; step < kTransitionSteps; ++step) {
    const double transition_mhz = lowest_mhz + (highest_mhz - lowest_mhz) * step / kTransitionSteps;
    double squares = 0;
    for (std::size_t i = 0; i < cells.size(); i += stride) squares += fit_cell(cells[i], transition_mhz).squares;
    if (squares >= best_squares) continue;
    best_squares = squares;
    best_mhz = transition_mhz;
  }
  return best_mhz;
}

/// log(measured / model) at the measured clocks, over log(clock).
struct Residuals {
  std::vector<double> at;  ///< log of the clock, rising
  std::vector<double> log_ratio;

  /// Sum of squared increments over their distance: each is an estimate of the variance of the process.
  [[nodiscard]] double increments() const {
    double sum = 0;
    for (std::size_t i = 1; i < at.size(); ++i) {
      const double change = log_ratio[i] - log_ratio[i - 1];
      sum += change * change / (at[i] - at[i - 1]);
    }
    return sum;
  }
};

struct Correction {
  double factor = 1;
  double spread = 0;  ///< the bridge's variance over that of the process per unit of log(clock)
};

/// `clock_mhz` lies strictly between two of the measured clocks.
Correction correction_at(const Residuals& residuals, int clock_mhz) {
  const double at = std::log(clock_mhz);
  const auto right =
      static_cast<std::size_t>(std::upper_bound(residuals.at.begin(), residuals.at.end(), at) - residuals.at.begin());
  const double gap = residuals.at[right] - residuals.at[right - 1];
  const double share = (at - residuals.at[right - 1]) / gap;
  const double log_ratio = residuals.log_ratio[right - 1] * (1 - share) + residuals.log_ratio[right] * share;
  return {std::exp(log_ratio), share * (1 - share) * gap};
}

/// One quantity of all cells: how far measurements are from the models, and the variance of that.
struct ResidualField {
  std::vector<Residuals> of_cell;
  std::vector<double> variance;  ///< by cell, per unit of log(clock)
};

/// `parameters` of the model's curve, besides its level, take as many increments from the estimate.
ResidualField residual_field(std::span<const Cell> cells, std::span<const ClockModel> models, double parameters,
                             const std::function<double(const ClockModel&, const Measurement&)>& ratio) {
  ResidualField field;
  double pooled = 0;
  double pooled_freedom = 0;
  const auto freedom = [parameters](const Cell& cell) {
    return std::max(1.0, static_cast<double>(cell.rows.size()) - 1 - parameters);
  };
  for (std::size_t i = 0; i < cells.size(); ++i) {
    Residuals residuals;
    for (const Measurement& row : cells[i].rows) {
      residuals.at.push_back(std::log(row.clock_mhz));
      residuals.log_ratio.push_back(std::log(ratio(models[i], row)));
    }
    pooled += residuals.increments();
    pooled_freedom += freedom(cells[i]);
    field.of_cell.push_back(std::move(residuals));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const double own = field.of_cell[i].increments();
    field.variance.push_back((own + kPooledWeight * pooled / pooled_freedom) / (freedom(cells[i]) + kPooledWeight));
  }
  return field;
}

class Predictor {
 public:
  Predictor(std::span<const Cell> cells, std::span<const ClockModel> models)
      : cells_(cells),
        models_(models),
        // Time: the share of b, and half a throttle clock, which power has a say in too; power: p1, p2 and the other
        // half.
        times_(residual_field(
            cells, models, 1.5,
            [](const ClockModel& model, const Measurement& row) { return row.time_s / model.time_s(row.clock_mhz); })),
        powers_(residual_field(cells, models, 2.5, [](const ClockModel& model, const Measurement& row) {
          return power_w(row) / model.power_w(row.clock_mhz);
        })) {}

  [[nodiscard]] FilledRow row(std::size_t cell, int clock_mhz) const {
    const ClockModel& model = models_[cell];
    FilledRow row;
    row.stage = model.stage;
    row.kind = model.kind;
    row.is_throttled = clock_mhz > model.throttle_mhz;
    const std::vector<Measurement>& measured = cells_[cell].rows;
    const auto at = std::ranges::find(measured, clock_mhz, &Measurement::clock_mhz);
    if (at != measured.end()) {
      row.value = *at;
      return row;
    }
    const Correction time = correction_at(times_.of_cell[cell], clock_mhz);
    const Correction power = correction_at(powers_.of_cell[cell], clock_mhz);
    const double time_s = model.time_s(clock_mhz) * time.factor;
    const double energy_j = model.power_w(clock_mhz) * power.factor * time_s;
    const double time_variance = times_.variance[cell] * time.spread;
    const double power_variance = powers_.variance[cell] * power.spread;
    row.origin = RowOrigin::predicted;
    row.value = {clock_mhz, time_s, energy_j};
    row.time_error_s = time_s * std::sqrt(time_variance);
    row.energy_error_j = energy_j * std::sqrt(time_variance + power_variance);
    return row;
  }

 private:
  std::span<const Cell> cells_;
  std::span<const ClockModel> models_;
  ResidualField times_;
  ResidualField powers_;
};

/// Clocks of the rows of a cell, highest first, each once.
std::vector<int> clocks_of(const Cell& cell, std::span<const int> asked_mhz) {
  std::vector<int> clocks_mhz(asked_mhz.begin(), asked_mhz.end());
  for (const Measurement& row : cell.rows) clocks_mhz.push_back(row.clock_mhz);
  std::ranges::sort(clocks_mhz, std::greater<>());
  clocks_mhz.erase(std::unique(clocks_mhz.begin(), clocks_mhz.end()), clocks_mhz.end());
  const int lowest_mhz = cell.rows.front().clock_mhz;
  const int highest_mhz = cell.rows.back().clock_mhz;
  const int outside_mhz = clocks_mhz.front() > highest_mhz ? clocks_mhz.front() : clocks_mhz.back();
  if (clocks_mhz.front() > highest_mhz || clocks_mhz.back() < lowest_mhz) {
    throw InputError(fmt::format(
        "stage {} {} was measured from {} to {} MHz, and {} MHz is outside of that; measure there: nothing is "
        "extrapolated",
        cell.stage, name(cell.kind), lowest_mhz, highest_mhz, outside_mhz));
  }
  return clocks_mhz;
}

}  // namespace

double ClockModel::time_s(double clock_mhz) const {
  return fixed_time_s + time_clock_s_mhz / std::min(clock_mhz, throttle_mhz);
}

double ClockModel::power_w(double clock_mhz) const {
  const double effective_mhz = std::min(clock_mhz, throttle_mhz);
  const double bend = above(effective_mhz, transition_mhz);
  return static_power_w + linear_power_w_per_mhz * effective_mhz + quadratic_power_w_per_mhz2 * bend * bend;
}

StageProfile FewClockFit::profile() const {
  int stages = 0;
  for (const FilledRow& row : rows) stages = std::max(stages, row.stage + 1);
  StageProfile profile(stages);
  for (const FilledRow& row : rows) profile.add(row.stage, row.kind, row.value);
  return profile;
}

FewClockFit fit_few_clocks(const StageProfile& measured, std::span<const int> clocks_mhz) {
  refuse_settings(measured, "predicting clocks from others");
  const std::vector<Cell> cells = cells_of(measured);
  FewClockFit fit;
  if (cells.empty()) return fit;
  const double transition_mhz = find_transition(cells);
  for (const Cell& cell : cells) fit.models.push_back(model_of(cell, transition_mhz));
  const Predictor predictor(cells, fit.models);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    for (const int clock_mhz : clocks_of(cells[i], clocks_mhz)) fit.rows.push_back(predictor.row(i, clock_mhz));
  }
  return fit;
}

std::vector<int> predictable_clocks(const StageProfile& measured, std::span<const int> clocks_mhz) {
  int lowest_mhz = 0;
  int highest_mhz = kMaxClockMhz;
  for (const StageOp& op : measured.ops()) {
    lowest_mhz = std::max(lowest_mhz, op.measurements.back().clock_mhz);
    highest_mhz = std::min(highest_mhz, op.measurements.front().clock_mhz);
  }
  std::vector<int> predictable_mhz;
  std::ranges::copy_if(clocks_mhz, std::back_inserter(predictable_mhz),
                       [=](int clock_mhz) { return clock_mhz >= lowest_mhz && clock_mhz <= highest_mhz; });
  return predictable_mhz;
}

std::vector<int> choose_clocks(std::span<const int> supported_mhz, int lowest_mhz, int highest_mhz, int count) {
  if (count < kMinMeasuredClocks) {
    throw InputError(
        fmt::format("{} clocks are too few to predict others from; choose at least {}", count, kMinMeasuredClocks));
  }
  std::vector<int> usable_mhz;
  for (const int clock_mhz : supported_mhz) {
    if (clock_mhz >= lowest_mhz && clock_mhz <= highest_mhz) usable_mhz.push_back(clock_mhz);
  }
  std::ranges::sort(usable_mhz, std::greater<>());
  usable_mhz.erase(std::unique(usable_mhz.begin(), usable_mhz.end()), usable_mhz.end());
  if (usable_mhz.size() < 2) {
    throw InputError(fmt::format("of the supported clocks, {} are in {} to {} MHz; widen the range", usable_mhz.size(),
                                 lowest_mhz, highest_mhz));
  }
  if (usable_mhz.size() <= static_cast<std::size_t>(count)) return usable_mhz;
  std::vector<int> chosen_mhz;
  std::size_t next = 0;
  for (int i = 0; i < count; ++i) {
    const double wanted_mhz =
        usable_mhz.front() + static_cast<double>(usable_mhz.back() - usable_mhz.front()) * i / (count - 1);
    // The nearest that leaves enough for those that are still to be chosen.
    const std::size_t last_place = usable_mhz.size() - static_cast<std::size_t>(count - i);
    while (next < last_place && std::abs(usable_mhz[next + 1] - wanted_mhz) < std::abs(usable_mhz[next] - wanted_mhz)) {
      ++next;
    }
    chosen_mhz.push_back(usable_mhz[next]);
    ++next;
  }
  return chosen_mhz;
}

}  // namespace lowgear::profile
