#include "estimating/power/predicted_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <set>

#include "base/core/error.h"

namespace lowgear::power {
namespace {

/// Sustained clocks that are tried where none is measured.
constexpr int kSustainedSteps = 16;
/// Error of one row against the model, of 1.
constexpr double kRowError = 0.01;
/// Rows of one op count as at most this many independent ones.
constexpr double kMostRows = 3;
/// Static power is at most this share of an op's power.
constexpr double kMostStatic = 0.9;

/// y = level + slope x, fitted to rows and an expectation of slope / (level + slope).
struct Line {
  double level = 0;
  double slope = 0;
  double level_variance = 0;
  double covariance = 0;
  double slope_variance = 0;
  double squares = 0;  ///< of residuals and of the distance from the expectation, by their variances

  Line(std::span<const double> x, std::span<const double> y, const Estimated& share) {
    const auto rows = static_cast<double>(x.size());
    const double weight = std::min(1.0, kMostRows / rows) / (kRowError * kRowError);
    const double trust = 1 / (share.error * share.error);
    double level_level = rows * weight + share.value * share.value * trust;
    double level_slope = -share.value * (1 - share.value) * trust;
    double slope_slope = (1 - share.value) * (1 - share.value) * trust;
    double level_y = 0;
    double slope_y = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      level_slope += weight * x[i];
      slope_slope += weight * x[i] * x[i];
      level_y += weight * y[i];
      slope_y += weight * x[i] * y[i];
    }
    const double determinant = level_level * slope_slope - level_slope * level_slope;
    level_variance = slope_slope / determinant;
    covariance = -level_slope / determinant;
    slope_variance = level_level / determinant;
    level = level_variance * level_y + covariance * slope_y;
    slope = covariance * level_y + slope_variance * slope_y;
    if (slope < 0) {
      level = level_y / level_level;
      slope = 0;
    }
    for (std::size_t i = 0; i < x.size(); ++i) squares += weight * std::pow(y[i] - at(x[i]), 2);
    squares += trust * std::pow(slope - share.value * (level + slope), 2);
  }

  [[nodiscard]] double at(double x) const { return level + slope * x; }
  /// With that of a row.
  [[nodiscard]] double variance(double x) const {
    return level_variance + 2 * covariance * x + slope_variance * x * x + kRowError * kRowError;
  }
  [[nodiscard]] Estimated share() const {
    const double sum = level + slope;
    const double by_level = -slope / (sum * sum);
    const double by_slope = level / (sum * sum);
    return {slope / sum, std::sqrt(by_level * by_level * level_variance + 2 * by_level * by_slope * covariance +
                                   by_slope * by_slope * slope_variance)};
  }
};

/// Mean and variance of one quantity.
struct Moments {
  double mean = 0;
  double variance = 0;
};

/// One op, were `sustained_mhz` the clock that it sustains.
class Candidate {
 public:
  Candidate(const profile::StageOp& op, const GpuFile& file, const ClockAssumptions& assumptions,
            const Estimated& time_share, double sustained_mhz)
      : file_(file),
        assumptions_(assumptions),
        sustained_mhz_(sustained_mhz),
        top_(op.measurements.front()),
        lowest_mhz_(effective_mhz(op.measurements.back().clock_mhz)),
        top_static_w_(static_w(top_.clock_mhz)),
        static_share_(std::min(1.0, kMostStatic * top_.energy_j / top_.time_s / top_static_w_)),
        dynamic_j_(top_.energy_j - static_share_ * top_static_w_ * top_.time_s),
        time_(rows(op, &Candidate::slowdown), relative_times(op), time_share),
        energy_(rows(op, &Candidate::relative_v2), relative_energies(op), assumptions.energy_share) {}

  [[nodiscard]] double sustained_mhz() const { return effective_mhz(top_.clock_mhz); }
  [[nodiscard]] double squares() const { return time_.squares + energy_.squares; }
  [[nodiscard]] Estimated time_share() const { return time_.share(); }

  [[nodiscard]] Moments time_s(double clock_mhz) const {
    const double x = slowdown(clock_mhz);
    const double time_s = top_.time_s * time_.at(x);
    const double below = std::max(0.0, std::log(lowest_mhz_ / effective_mhz(clock_mhz)));
    return {time_s,
            top_.time_s * top_.time_s * time_.variance(x) + std::pow(assumptions_.time_walk * below * time_s, 2)};
  }

  [[nodiscard]] Moments energy_j(double clock_mhz) const {
    const Moments time = time_s(clock_mhz);
    const double v2 = relative_v2(clock_mhz);
    const double power_w = static_share_ * static_w(clock_mhz);
    const GpuFile::StaticPower& awake = file_.static_power;
    const double static_error_w =
        static_share_ * std::hypot(awake.at_reference_w.error, awake.per_k_w.value * assumptions_.temperature_k);
    const double v2_error =
        file_.voltage.error(effective_mhz(clock_mhz)) / file_.voltage.relative_v2(effective_mhz(top_.clock_mhz));
    return {power_w * time.mean + dynamic_j_ * energy_.at(v2),
            power_w * power_w * time.variance + std::pow(static_error_w * (time.mean - top_.time_s), 2) +
                dynamic_j_ * dynamic_j_ * (energy_.variance(v2) + std::pow(energy_.slope * v2_error, 2))};
  }

 private:
  [[nodiscard]] double effective_mhz(double clock_mhz) const { return std::min(clock_mhz, sustained_mhz_); }
  [[nodiscard]] double slowdown(double clock_mhz) const {
    return effective_mhz(top_.clock_mhz) / effective_mhz(clock_mhz);
  }
  [[nodiscard]] double relative_v2(double clock_mhz) const {
    return file_.voltage.relative_v2(effective_mhz(clock_mhz)) /
           file_.voltage.relative_v2(effective_mhz(top_.clock_mhz));
  }
  [[nodiscard]] double static_w(double clock_mhz) const {
    const double mhz = effective_mhz(clock_mhz);
    const double rate = file_.voltage.relative_v2(mhz) * mhz / file_.max_clock_mhz;
    return file_.static_power.at_reference_w.value - file_.static_power.clock_tree_w.value * (1 - rate);
  }

  [[nodiscard]] std::vector<double> rows(const profile::StageOp& op, double (Candidate::*value)(double) const) const {
    std::vector<double> values;
    for (const profile::Measurement& row : op.measurements) values.push_back((this->*value)(row.clock_mhz));
    return values;
  }
  [[nodiscard]] std::vector<double> relative_times(const profile::StageOp& op) const {
    std::vector<double> values;
    for (const profile::Measurement& row : op.measurements) values.push_back(row.time_s / top_.time_s);
    return values;
  }
  [[nodiscard]] std::vector<double> relative_energies(const profile::StageOp& op) const {
    std::vector<double> values;
    for (const profile::Measurement& row : op.measurements) {
      values.push_back((row.energy_j - static_share_ * static_w(row.clock_mhz) * row.time_s) / dynamic_j_);
    }
    return values;
  }

  const GpuFile& file_;
  const ClockAssumptions& assumptions_;
  double sustained_mhz_;
  const profile::Measurement& top_;
  double lowest_mhz_;  ///< recorded
  double top_static_w_;
  double static_share_;  ///< below 1 for an op that draws less than static power
  double dynamic_j_;
  Line time_;
  Line energy_;
};

/// All candidates of an op.
class OpPrediction {
 public:
  OpPrediction(const profile::StageOp& op, const GpuFile& file, const ClockAssumptions& assumptions,
               std::optional<double> sustained_mhz)
      : stage_(op.stage), kind_(op.kind), clocks_(static_cast<int>(op.measurements.size())) {
    const ClockShare* estimated = nullptr;
    if (const auto known = assumptions.estimated_time_shares.find({stage_, kind_});
        known != assumptions.estimated_time_shares.end()) {
      estimated = &known->second;
      expectation_ = ShareOrigin::estimated;
    }
    expected_error_ = estimated != nullptr ? assumptions.estimated_error : assumptions.time_share.error;
    const double top_mhz = op.measurements.front().clock_mhz;
    const double range_mhz = top_mhz - op.measurements.back().clock_mhz;
    const int steps = sustained_mhz || range_mhz == 0 ? 0 : kSustainedSteps;
    for (int step = 0; step <= steps; ++step) {
      const double tried_mhz = steps == 0 ? sustained_mhz.value_or(top_mhz) : top_mhz - range_mhz * step / steps;
      const double share =
          estimated != nullptr ? estimated->at(std::min(top_mhz, tried_mhz)) : assumptions.time_share.value;
      candidates_.emplace_back(op, file, assumptions, Estimated{share, expected_error_}, tried_mhz);
    }
    best_ = std::ranges::min_element(candidates_, {}, &Candidate::squares) - candidates_.begin();
  }

  [[nodiscard]] profile::FilledRow row(int clock_mhz) const {
    const Moments time = mean([=](const Candidate& each) { return each.time_s(clock_mhz); });
    const Moments energy = mean([=](const Candidate& each) { return each.energy_j(clock_mhz); });
    return {.stage = stage_,
            .kind = kind_,
            .value = {clock_mhz, time.mean, energy.mean},
            .origin = profile::RowOrigin::predicted,
            .time_error_s = std::sqrt(time.variance),
            .energy_error_j = std::sqrt(energy.variance),
            .is_throttled = clock_mhz > best().sustained_mhz()};
  }

  [[nodiscard]] TimeShare time_share() const {
    // A recording that takes less than a quarter of the error says hardly more than the expectation.
    constexpr double kHardly = 0.75;
    const Estimated share = best().time_share();
    return {stage_,  kind_,
            share,   best().sustained_mhz(),
            clocks_, share.error > kHardly * expected_error_ ? expectation_ : ShareOrigin::recorded};
  }

 private:
  [[nodiscard]] const Candidate& best() const { return candidates_[static_cast<std::size_t>(best_)]; }

  /// By likelihood.
  [[nodiscard]] Moments mean(const std::function<Moments(const Candidate&)>& of) const {
    double weights = 0;
    Moments sum;
    for (const Candidate& candidate : candidates_) {
      const double weight = std::exp((best().squares() - candidate.squares()) / 2);
      const Moments each = of(candidate);
      weights += weight;
      sum.mean += weight * each.mean;
      sum.variance += weight * (each.variance + each.mean * each.mean);
    }
    sum.mean /= weights;
    sum.variance = std::max(0.0, sum.variance / weights - sum.mean * sum.mean);
    return sum;
  }

  int stage_;
  OpKind kind_;
  int clocks_;
  double expected_error_ = 0;  ///< of the share
  ShareOrigin expectation_ = ShareOrigin::assumed;
  std::vector<Candidate> candidates_;
  std::ptrdiff_t best_ = 0;
};

std::optional<double> sustained_of(const profile::StageOp& op, const std::map<profile::CellKey, double>& sustained) {
  const auto found = sustained.find({op.stage, op.kind, op.measurements.front().clock_mhz});
  return found == sustained.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::string_view name(ShareOrigin origin) {
  switch (origin) {
    case ShareOrigin::assumed:
      return "assumed";
    case ShareOrigin::estimated:
      return "estimated";
    case ShareOrigin::recorded:
      return "recorded";
  }
  return "";
}

PredictedClocks predict_clocks(const profile::StageProfile& measured, const GpuFile& file,
                               std::span<const int> clocks_mhz, const std::map<profile::CellKey, double>& sustained_mhz,
                               const ClockAssumptions& assumptions) {
  refuse_settings(measured, "predicting clocks from the power of a GPU");
  PredictedClocks predicted;
  for (const profile::StageOp& op : measured.ops()) {
    const int top_mhz = op.measurements.front().clock_mhz;
    if (top_mhz > file.max_clock_mhz) {
      throw InputError(
          fmt::format("stage {} {} was recorded at {} MHz, and the GPU file's highest clock is {:.0f} MHz; "
                      "give the file of the recorded GPU",
                      op.stage, name(op.kind), top_mhz, file.max_clock_mhz));
    }
    const OpPrediction prediction(op, file, assumptions, sustained_of(op, sustained_mhz));
    predicted.shares.push_back(prediction.time_share());
    std::set<int, std::greater<>> all_mhz;
    std::ranges::copy_if(clocks_mhz, std::inserter(all_mhz, all_mhz.end()), [=](int mhz) { return mhz <= top_mhz; });
    for (const profile::Measurement& row : op.measurements) all_mhz.insert(row.clock_mhz);
    for (const int clock_mhz : all_mhz) {
      const auto at = std::ranges::find(op.measurements, clock_mhz, &profile::Measurement::clock_mhz);
      predicted.fit.rows.push_back(at == op.measurements.end()
                                       ? prediction.row(clock_mhz)
                                       : profile::FilledRow{.stage = op.stage, .kind = op.kind, .value = *at});
    }
  }
  return predicted;
}

}  // namespace lowgear::power
