#include "planning/profile/energy_regression.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "base/core/error.h"
#include "base/core/numbers/median.h"
#include "planning/profile/regression/non_negative_least_squares.h"

namespace lowgear::profile {
namespace {

/// Units may touch; what clocks of different resolution make of that is no overlap.
constexpr double kOverlapS = 1e-4;
/// Changes of the counter on either side that a straight line is laid through.
constexpr std::size_t kSteadyReach = 40;
/// Eigenvalues of the Gram matrix of unit columns below are taken for zero: columns that agree to 1e-5.
constexpr double kNullEigenvalue = 1e-10;
/// A cell whose unit column has this much (squared) in the null space cannot be distinguished from others.
constexpr double kNullShare = 1e-6;
constexpr int kLags = 2;

/// Shifts of energies against units that are tried: to 0.6 s either way, then finer around the best one.
constexpr double kShiftStepS = 0.03;
constexpr int kShifts = 20;
constexpr int kFinerShifts = 4;
/// A shift counts from here on, where it leaves at most this share of what no shift leaves, in squares.
constexpr double kLeastShiftS = 0.04;
constexpr double kLessMisfit = 0.5;
constexpr std::size_t kWindowsPerPower = 4;
/// Share of the trace: far below any column with time, far above rounding.
constexpr double kRidge = 1e-12;

/// A new value of the counter, seen at `time_s`, which may be off by `half_width_s`.
struct CounterChange {
  double time_s = 0;
  double half_width_s = 0;
  double energy_j = 0;
};

std::vector<CounterChange> counter_changes(const Recording& recording) {
  std::vector<CounterChange> changes;
  const EnergySample* before = nullptr;
  for (const EnergySample& sample : recording.samples) {
    if (!sample.energy_j) continue;
    if (before != nullptr && *sample.energy_j > *before->energy_j) {
      const bool exact = recording.sampling == CounterSampling::on_change;
      const double half_width_s = exact ? 0 : (sample.time_s - before->time_s) / 2;
      changes.push_back({sample.time_s - half_width_s, half_width_s, *sample.energy_j});
    }
    before = &sample;
  }
  return changes;
}

/// The counter's period: the mean time between changes. Those that are twice as far apart as usual are left out, as one
/// step was missed between them; a single time is no guide, as readings that are half a step apart see steps of 94 and
/// of 141 ms where there are steps of 100 ms.
double mean_step_s(const std::vector<CounterChange>& changes) {
  constexpr double kOneStep = 1.75;  // of the median; 2 and more is two steps
  std::vector<double> steps_s;
  for (std::size_t i = 1; i < changes.size(); ++i) steps_s.push_back(changes[i].time_s - changes[i - 1].time_s);
  const double longest_s = kOneStep * upper_median(std::span(steps_s));
  double sum_s = 0;
  double count = 0;
  for (const double step_s : steps_s) {
    if (step_s > longest_s) continue;
    sum_s += step_s;
    ++count;
  }
  return sum_s / count;
}

/// Number of the step of every change, by a loop that follows the phase of the steps: single times are off by up to
/// half a step when the readings are as far apart, so that they cannot be rounded one by one.
std::vector<double> number_steps(const std::vector<CounterChange>& changes) {
  constexpr double kGain = 0.1;  // averages over about ten steps
  const double step_s = mean_step_s(changes);
  double expected_s = changes.front().time_s;
  std::vector<double> step_of{0};
  for (std::size_t i = 1; i < changes.size(); ++i) {
    const double steps = std::max(1.0, std::round((changes[i].time_s - expected_s) / step_s));
    expected_s += steps * step_s;
    expected_s += kGain * (changes[i].time_s - expected_s);
    step_of.push_back(step_of.back() + steps);
  }
  return step_of;
}

/// Time of change `at` on the straight line through its neighbours' (number of step, time).
double time_on_line(const std::vector<CounterChange>& changes, const std::vector<double>& step_of, std::size_t at) {
  const std::size_t reach = std::min({kSteadyReach, at, changes.size() - 1 - at});
  const std::size_t first = at - reach;
  const std::size_t last = at + reach;
  const auto count = static_cast<double>(last - first + 1);
  double mean_step = 0;
  double mean_s = 0;
  for (std::size_t i = first; i <= last; ++i) {
    mean_step += step_of[i] / count;
    mean_s += changes[i].time_s / count;
  }
  double product = 0;
  double square = 0;
  for (std::size_t i = first; i <= last; ++i) {
    product += (step_of[i] - mean_step) * (changes[i].time_s - mean_s);
    square += (step_of[i] - mean_step) * (step_of[i] - mean_step);
  }
  return square > 0 ? mean_s + product / square * (step_of[at] - mean_step) : changes[at].time_s;
}

/// Sharper times of a counter that advances in steady steps. A time never leaves the interval in which it must be.
void sharpen(std::vector<CounterChange>& changes) {
  if (changes.size() < 3) return;
  const std::vector<double> step_of = number_steps(changes);
  std::vector<double> sharper_s;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const double line_s = time_on_line(changes, step_of, i);
    const auto& [time_s, half_width_s, energy_j] = changes[i];
    sharper_s.push_back(std::clamp(line_s, time_s - half_width_s, time_s + half_width_s));
  }
  for (std::size_t i = 0; i < changes.size(); ++i) changes[i].time_s = sharper_s[i];
}

/// Adds the cells of a recording to those that are there, in their order.
void add_cells(const Recording& recording, std::vector<CellKey>& cells) {
  double end_s = 0;
  for (const RecordedUnit& unit : recording.units) {
    if (unit.start_s < end_s - kOverlapS) {
      throw InputError(fmt::format(
          "{}: the {} of stage {}, iteration {}, microbatch {} starts at {} s, before the previous unit has ended; "
          "energy cannot be distinguished where a rank's units overlap",
          recording.source, name(unit.kind), unit.stage, unit.iteration, unit.microbatch, unit.start_s));
    }
    end_s = std::max(end_s, unit.end_s);
    if (unit.settling) continue;
    const CellKey key{unit.stage, unit.kind, unit.clock_mhz};
    const auto at = std::lower_bound(cells.begin(), cells.end(), key);
    if (at != cells.end() && *at == key) continue;
    cells.insert(at, key);
    if (cells.size() > kMaxCells) {
      throw InputError(
          fmt::format("{}: has more than {} combinations of stage, instruction and frequency; record fewer clocks",
                      recording.source, kMaxCells));
    }
  }
}

void add_share(std::vector<EnergyWindow::Share>& shares, std::size_t cell, double time_s) {
  const auto at = std::ranges::find(shares, cell, &EnergyWindow::Share::cell);
  if (at != shares.end()) {
    at->time_s += time_s;
  } else {
    shares.push_back({cell, time_s});
  }
}

std::vector<int> clocks_of(const std::vector<CellKey>& cells) {
  std::vector<int> clocks_mhz;
  clocks_mhz.reserve(cells.size());
  for (const CellKey& cell : cells) clocks_mhz.push_back(cell.clock_mhz);
  std::ranges::sort(clocks_mhz);
  clocks_mhz.erase(std::unique(clocks_mhz.begin(), clocks_mhz.end()), clocks_mhz.end());
  return clocks_mhz;
}

/// What ran from `begin_s` to `end_s`. `next` is the first unit that may end later than `begin_s`, and is moved on.
EnergyWindow window_of(const Recording& recording, const EnergyWindows& all, double begin_s, double end_s,
                       std::size_t& next) {
  EnergyWindow window;
  const std::vector<RecordedUnit>& units = recording.units;
  while (next < units.size() && units[next].end_s <= begin_s) ++next;
  double done_s = begin_s;
  const auto wait_until = [&](double time_s, int clock_mhz) {
    if (time_s <= done_s) return;
    const auto clock = std::ranges::lower_bound(all.waiting_clocks_mhz, clock_mhz) - all.waiting_clocks_mhz.begin();
    add_share(window.waiting, static_cast<std::size_t>(clock), time_s - done_s);
    window.waiting_s += time_s - done_s;
  };
  int clock_mhz = next > 0 ? units[next - 1].clock_mhz : units.front().clock_mhz;
  for (std::size_t i = next; i < units.size() && units[i].start_s < end_s; ++i) {
    const double time_s = std::min(end_s, units[i].end_s) - std::max(begin_s, units[i].start_s);
    if (time_s <= 0) continue;
    wait_until(units[i].start_s, clock_mhz);
    const CellKey key{units[i].stage, units[i].kind, units[i].clock_mhz};
    const auto cell = std::lower_bound(all.cells.begin(), all.cells.end(), key) - all.cells.begin();
    add_share(window.busy, static_cast<std::size_t>(cell), time_s);
    done_s = std::max(done_s, units[i].end_s);
    clock_mhz = units[i].clock_mhz;
  }
  wait_until(end_s, clock_mhz);
  return window;
}

/// One row of the design matrix: times by column, the last of which may be waiting.
using Row = std::vector<EnergyWindow::Share>;

struct Design {
  std::vector<Row> rows;
  std::vector<double> energy_j;
  Eigen::Index columns = 0;

  [[nodiscard]] double predicted_j(std::size_t row, const Eigen::VectorXd& power_w) const {
    double sum_j = 0;
    for (const auto& [column, time_s] : rows[row]) sum_j += time_s * power_w(static_cast<Eigen::Index>(column));
    return sum_j;
  }
};

enum class Waiting : unsigned char {
  known,     ///< its power is given
  one,       ///< one power, the last column
  by_clock,  ///< one power for each clock, the last columns
};

std::size_t waiting_columns(const EnergyWindows& windows, Waiting waiting) {
  if (waiting == Waiting::known) return 0;
  return waiting == Waiting::one ? 1 : windows.waiting_clocks_mhz.size();
}

Design design_of(const EnergyWindows& windows, Waiting waiting, double blocking_w) {
  Design design;
  const std::size_t cells = windows.cells.size();
  design.columns = static_cast<Eigen::Index>(cells + waiting_columns(windows, waiting));
  for (const EnergyWindow& window : windows.windows) {
    Row row = window.busy;
    if (waiting == Waiting::one && window.waiting_s > 0) row.push_back({cells, window.waiting_s});
    if (waiting == Waiting::by_clock) {
      for (const auto& [clock, time_s] : window.waiting) row.push_back({cells + clock, time_s});
    }
    design.rows.push_back(std::move(row));
    design.energy_j.push_back(window.energy_j - (waiting == Waiting::known ? blocking_w * window.waiting_s : 0));
  }
  return design;
}

/// Adds `weight` times the outer product of two rows, made symmetric.
void add_product(Eigen::MatrixXd& sum, const Row& a, const Row& b, double weight) {
  for (const auto& [i, a_s] : a) {
    for (const auto& [j, b_s] : b) {
      sum(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) += weight * a_s * b_s / 2;
      sum(static_cast<Eigen::Index>(j), static_cast<Eigen::Index>(i)) += weight * a_s * b_s / 2;
    }
  }
}

/// The middle of the sandwich: sum of residual x row products, of the same row and of neighbours (Newey and West,
/// Econometrica 55, 1987, with Bartlett weights).
Eigen::MatrixXd middle_of(const Design& design, const std::vector<double>& residual_j) {
  Eigen::MatrixXd middle = Eigen::MatrixXd::Zero(design.columns, design.columns);
  for (std::size_t row = 0; row < design.rows.size(); ++row) {
    add_product(middle, design.rows[row], design.rows[row], residual_j[row] * residual_j[row]);
    for (std::size_t lag = 1; lag <= kLags && lag <= row; ++lag) {
      const double weight = 2 * (1 - static_cast<double>(lag) / (kLags + 1));
      add_product(middle, design.rows[row], design.rows[row - lag], weight * residual_j[row] * residual_j[row - lag]);
    }
  }
  return middle;
}

/// Columns scaled to unit length, and what is known of their dependence.
struct Geometry {
  Eigen::VectorXd scale;    ///< 1 / length of each column, 0 for one without time
  Eigen::MatrixXd inverse;  ///< pseudo-inverse of the Gram matrix of the columns as they are
  std::vector<bool> identified;
};

Geometry geometry_of(const Eigen::MatrixXd& gram) {
  Geometry geometry;
  geometry.scale = gram.diagonal().unaryExpr([](double square) { return square > 0 ? 1 / std::sqrt(square) : 0.0; });
  const Eigen::MatrixXd unit = geometry.scale.asDiagonal() * gram * geometry.scale.asDiagonal();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(unit);
  const Eigen::ArrayXd values = eigen.eigenvalues().array();
  const Eigen::ArrayXd is_null = (values < kNullEigenvalue).cast<double>();
  const Eigen::VectorXd inverse_values = (1 - is_null) / values.max(kNullEigenvalue);
  const Eigen::VectorXd null_share = eigen.eigenvectors().array().square().matrix() * is_null.matrix();
  for (Eigen::Index i = 0; i < null_share.size(); ++i) geometry.identified.push_back(null_share(i) < kNullShare);
  geometry.inverse = geometry.scale.asDiagonal() * eigen.eigenvectors() * inverse_values.asDiagonal() *
                     eigen.eigenvectors().transpose() * geometry.scale.asDiagonal();
  return geometry;
}

void check_counts(const Design& design) {
  if (design.rows.size() > static_cast<std::size_t>(design.columns)) return;
  throw InputError(
      fmt::format("the energy counter changed too seldom: {} windows for {} unknown powers; record more iterations",
                  design.rows.size(), design.columns));
}

/// Power of each column, and how sure it is.
struct Solution {
  std::vector<CellPower> powers;
  Eigen::MatrixXd covariance;
  double residual_j = 0;

  [[nodiscard]] bool all_identified() const {
    return std::ranges::all_of(powers, [](const CellPower& power) { return power.is_identified; });
  }
};

/// Of the equations whose solution has the least squares.
struct NormalEquations {
  Eigen::MatrixXd gram;
  Eigen::VectorXd rhs;
};

NormalEquations normal_equations(const Design& design) {
  NormalEquations equations{Eigen::MatrixXd::Zero(design.columns, design.columns),
                            Eigen::VectorXd::Zero(design.columns)};
  for (std::size_t row = 0; row < design.rows.size(); ++row) {
    add_product(equations.gram, design.rows[row], design.rows[row], 1);
    for (const auto& [column, time_s] : design.rows[row]) {
      equations.rhs(static_cast<Eigen::Index>(column)) += time_s * design.energy_j[row];
    }
  }
  return equations;
}

Solution solve(const Design& design) {
  const auto [gram, rhs] = normal_equations(design);
  const Eigen::VectorXd power_w = solve_non_negative(gram, rhs).values;
  std::vector<double> residual_j;
  double squares = 0;
  for (std::size_t row = 0; row < design.rows.size(); ++row) {
    residual_j.push_back(design.energy_j[row] - design.predicted_j(row, power_w));
    squares += residual_j.back() * residual_j.back();
  }
  const Geometry geometry = geometry_of(gram);
  const auto count = static_cast<double>(design.rows.size());
  Solution solution;
  solution.covariance = geometry.inverse * middle_of(design, residual_j) * geometry.inverse *
                        (count / (count - static_cast<double>(design.columns)));
  solution.residual_j = std::sqrt(squares / count);
  for (Eigen::Index i = 0; i < design.columns; ++i) {
    const double error_w = std::sqrt(std::max(0.0, solution.covariance(i, i)));
    solution.powers.push_back({power_w(i), error_w, geometry.identified[static_cast<std::size_t>(i)]});
  }
  return solution;
}

/// Mean power of waiting over all that was waited, from the powers by clock, which begin at column `first`.
CellPower mean_blocking(const EnergyWindows& windows, const Solution& solution, std::size_t first) {
  Eigen::VectorXd weights = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(solution.powers.size()));
  double all_s = 0;
  for (const EnergyWindow& window : windows.windows) {
    for (const auto& [clock, time_s] : window.waiting) weights(static_cast<Eigen::Index>(first + clock)) += time_s;
    all_s += window.waiting_s;
  }
  weights /= all_s;
  CellPower mean{0, std::sqrt(std::max(0.0, weights.dot(solution.covariance * weights))), true};
  for (std::size_t i = first; i < solution.powers.size(); ++i) {
    mean.power_w += weights(static_cast<Eigen::Index>(i)) * solution.powers[i].power_w;
  }
  return mean;
}

/// Iterations in which clocks settled, each with all that follows it until the next unit that counts.
std::vector<TimeSpan> settling_spans(const Recording& recording) {
  std::vector<TimeSpan> spans;
  bool settling = false;
  for (const RecordedUnit& unit : recording.units) {
    if (unit.settling && !settling) spans.push_back({unit.start_s, std::numeric_limits<double>::infinity()});
    if (!unit.settling && settling) spans.back().end_s = unit.start_s;
    settling = unit.settling;
  }
  return spans;
}

/// Of which a reading or a counter states the energy.
struct EnergySpan {
  double begin_s = 0;
  double end_s = 0;
  double energy_j = 0;
};

std::vector<EnergySpan> spans_of_power(const Recording& recording) {
  std::vector<EnergySpan> spans;
  for (const EnergySample& sample : recording.samples) {
    if (!sample.power_w) continue;
    const double mean_s = recording.power_mean_s;
    spans.push_back({sample.time_s - mean_s, sample.time_s, mean_s * *sample.power_w});
  }
  return spans;
}

std::vector<EnergySpan> spans_of_counter(const Recording& recording) {
  std::vector<CounterChange> changes = counter_changes(recording);
  if (recording.sampling == CounterSampling::periodic) sharpen(changes);
  std::vector<EnergySpan> spans;
  for (std::size_t i = 1; i < changes.size(); ++i) {
    spans.push_back({changes[i - 1].time_s, changes[i].time_s, changes[i].energy_j - changes[i - 1].energy_j});
  }
  return spans;
}

void add_windows(const Recording& recording, EnergyWindows& all) {
  if (recording.units.empty()) return;
  const std::vector<TimeSpan> settling = settling_spans(recording);
  const double begin_s = recording.units.front().start_s;
  const double end_s = recording.units.back().end_s;
  std::size_t next = 0;
  std::size_t next_span = 0;
  for (EnergySpan span : recording.energy_from_power ? spans_of_power(recording) : spans_of_counter(recording)) {
    // Power readings state the energy of their own time, whatever lies between them.
    if (!recording.energy_from_power && recording.is_set_aside(span.begin_s, span.end_s)) continue;
    span.begin_s += recording.energy_shift_s;
    span.end_s += recording.energy_shift_s;
    if (span.begin_s < begin_s || span.end_s > end_s || span.end_s <= span.begin_s) continue;
    while (next_span < settling.size() && settling[next_span].end_s <= span.begin_s) ++next_span;
    if (next_span < settling.size() && settling[next_span].begin_s < span.end_s) continue;
    EnergyWindow window = window_of(recording, all, span.begin_s, span.end_s, next);
    window.energy_j = span.energy_j;
    all.windows.push_back(std::move(window));
  }
}

/// Mean square of what the best powers, of whatever sign, leave of a window's energy; empty where windows are too few.
std::optional<double> misfit_j2(const Recording& recording, std::optional<double> blocking_w) {
  const EnergyWindows windows = energy_windows(recording);
  const Waiting waiting = blocking_w ? Waiting::known : Waiting::by_clock;
  const Design design = design_of(windows, waiting, blocking_w.value_or(0));
  if (design.rows.size() < kWindowsPerPower * static_cast<std::size_t>(design.columns)) return std::nullopt;
  auto [gram, rhs] = normal_equations(design);
  // Powers that cannot be told apart, or have no time, do not change what is left.
  gram.diagonal().array() += kRidge * gram.trace();
  double square = 0;
  for (const double energy_j : design.energy_j) square += energy_j * energy_j;
  const double explained = rhs.dot(gram.ldlt().solve(rhs));
  return std::max(0.0, square - explained) / static_cast<double>(design.rows.size());
}

}  // namespace

double find_energy_shift_s(Recording recording, std::optional<double> blocking_w) {
  const double start_s = recording.energy_shift_s;
  const std::optional<double> unshifted_j2 = misfit_j2(recording, blocking_w);
  if (!unshifted_j2) return start_s;
  double best_s = start_s;
  double best_j2 = *unshifted_j2;
  const auto try_shift = [&](double shift_s) {
    recording.energy_shift_s = shift_s;
    const std::optional<double> left_j2 = misfit_j2(recording, blocking_w);
    if (!left_j2 || *left_j2 >= best_j2) return;
    best_j2 = *left_j2;
    best_s = shift_s;
  };
  for (int i = 1; i <= kShifts; ++i) {
    try_shift(start_s + i * kShiftStepS);
    try_shift(start_s - i * kShiftStepS);
  }
  const double coarse_s = best_s;
  for (int i = 1; i < kFinerShifts; ++i) {
    try_shift(coarse_s + i * kShiftStepS / kFinerShifts);
    try_shift(coarse_s - i * kShiftStepS / kFinerShifts);
  }
  const bool is_better = best_j2 < kLessMisfit * *unshifted_j2;
  return is_better && std::abs(best_s - start_s) >= kLeastShiftS ? best_s : start_s;
}

EnergyWindows energy_windows(std::span<const Recording> parts) {
  EnergyWindows result;
  for (const Recording& part : parts) add_cells(part, result.cells);
  result.waiting_clocks_mhz = clocks_of(result.cells);
  for (const Recording& part : parts) add_windows(part, result);
  return result;
}

EnergyWindows energy_windows(const Recording& recording) { return energy_windows(std::span(&recording, 1)); }

EnergyRegression fit_energy(const EnergyWindows& windows, std::optional<double> blocking_w) {
  const std::size_t cells = windows.cells.size();
  const auto regression = [&](const Solution& solution) {
    EnergyRegression result;
    result.window_count = windows.windows.size();
    result.residual_j = solution.residual_j;
    result.cells.assign(solution.powers.begin(), solution.powers.begin() + static_cast<std::ptrdiff_t>(cells));
    return result;
  };
  const Design by_clock = design_of(windows, Waiting::by_clock, 0);
  const bool may_tell_clocks_apart = !blocking_w && windows.waiting_clocks_mhz.size() > 1 &&
                                     by_clock.rows.size() > static_cast<std::size_t>(by_clock.columns);
  if (may_tell_clocks_apart) {
    const Solution solution = solve(by_clock);
    if (solution.all_identified()) {
      EnergyRegression result = regression(solution);
      result.blocking = mean_blocking(windows, solution, cells);
      for (std::size_t clock = 0; clock < windows.waiting_clocks_mhz.size(); ++clock) {
        result.blocking_by_clock[windows.waiting_clocks_mhz[clock]] = solution.powers[cells + clock];
      }
      return result;
    }
  }
  const Design design = design_of(windows, blocking_w ? Waiting::known : Waiting::one, blocking_w.value_or(0));
  check_counts(design);
  const Solution solution = solve(design);
  EnergyRegression result = regression(solution);
  if (!blocking_w) result.blocking = solution.powers.back();
  return result;
}

}  // namespace lowgear::profile
