#include "estimating/curve/curve_fit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/median.h"
#include "base/core/units.h"
#include "estimating/curve/clock_by_rate.h"
#include "estimating/curve/curve_power.h"
#include "estimating/curve/voltage_table.h"

namespace lowgear::curve {
namespace {

using power::Estimated;

/// Powers are not known better than this share of them, whatever the counter's steps say.
constexpr double kLeastError = 0.002;
constexpr double kOutlier = 5;
constexpr double kOutlierShare = 0.01;
/// A clock this close to the highest is the highest.
constexpr double kSameClockMhz = 2;
/// Expected growth of static power with temperature, and drift.
constexpr Estimated kPerKelvinW = {0.8, 0.8};
constexpr Estimated kDriftW = {0, 3};
constexpr Estimated kAwakeW = {0, 40};

class Fit {
 public:
  Fit(std::span<const CurveSample> samples, const CurveFitOptions& options) : options_(options) {
    model_.samples = samples;
    require_enough();
    for (const CurveSample& sample : samples) model_.max_mhz = std::max(model_.max_mhz, sample.clock_mhz);
    model_.max_mhz = std::round(model_.max_mhz);
    model_.clocks = clocks_by_rate(samples);
    for (const CurveSample& sample : samples) {
      if (sample.load.product_sms == 0) continue;
      const CurveLoad kind = kind_of(sample.load);
      if (std::ranges::find(model_.kinds, kind) == model_.kinds.end()) model_.kinds.push_back(kind);
    }
    left_out_.resize(samples.size());
    leave_out_unfit();
    model_.table = VoltageTable(used_clocks(), model_.max_mhz, kSameClockMhz);
    if (model_.table.knots().empty()) {
      throw InputError(
          "no sample ran below the highest clock: the power limit held none of these loads down, so they do not show "
          "the voltage of lower clocks");
    }
    start_values();
  }

  [[nodiscard]] CurveFit run() {
    settle();
    constexpr std::size_t kMostOutliers = 20;
    for (std::size_t i = 0; i < kMostOutliers && leave_out_outlier(); ++i) settle();
    add_errors_of_loads();
    return result();
  }

 private:
  void require_enough() const {
    constexpr std::size_t kFewest = 8;
    if (model_.samples.size() >= kFewest) return;
    throw InputError(
        fmt::format("{} samples are too few for a curve; it needs {} or more", model_.samples.size(), kFewest));
  }

  void leave_out_unfit() {
    for (std::size_t i = 0; i < model_.samples.size(); ++i) {
      const CurveSample& sample = model_.samples[i];
      const bool idle = sample.load.product_sms == 0 && sample.load.stream_sms == 0;
      if (sample.thermal_s > 0) {
        left_out_[i] = "heat held the clock down";
      } else if (idle && sample.clock_mhz < model_.max_mhz - kSameClockMhz) {
        left_out_[i] = "idle below the highest clock";
      }
    }
  }

  [[nodiscard]] std::vector<double> used_clocks() const {
    std::vector<double> clocks;
    for (std::size_t i = 0; i < model_.samples.size(); ++i) {
      if (left_out_[i].empty()) clocks.push_back(model_.clocks[i]);
    }
    return clocks;
  }

  void start_values() {
    model_.values = Eigen::VectorXd::Zero(model_.unknowns());
    double least_w = std::numeric_limits<double>::max();
    for (const CurveSample& sample : model_.samples) least_w = std::min(least_w, sample.power_w());
    model_.values[kStatic] = least_w;
    model_.values[kTree] = options_.clock_tree_share.value * least_w;
    model_.values[kPerKelvin] = kPerKelvinW.value;
    for (std::size_t k = 0; k < model_.table.knots().size(); ++k) {
      model_.values[model_.first_knot() + static_cast<Eigen::Index>(k)] = model_.table.knots()[k] / model_.max_mhz;
    }
    const bool streams = std::ranges::any_of(model_.samples, [](const CurveSample& s) { return s.bytes > 0; });
    constexpr double kPicojoulesPerByte = 50;
    if (streams) model_.values[kByteFixed] = model_.values[kByteClocked] = kPicojoulesPerByte;
    constexpr double kPicojoulesPerCachedByte = 20;
    const bool reads_cache =
        std::ranges::any_of(model_.samples, [](const CurveSample& s) { return s.cache_bytes > 0; });
    if (reads_cache) model_.values[kCacheFixed] = model_.values[kCacheClocked] = kPicojoulesPerCachedByte;
    for (std::size_t k = 0; k < model_.kinds.size(); ++k) {
      std::vector<double> energies;
      for (const CurveSample& sample : model_.samples) {
        if (sample.load.product_sms > 0 && kind_of(sample.load) == model_.kinds[k] && sample.operations > 0 &&
            sample.bytes == 0) {
          energies.push_back((sample.power_w() - least_w) * sample.time_s / sample.operations * kTera);
        }
      }
      model_.values[kLoads + static_cast<Eigen::Index>(k)] = energies.empty() ? 1 : upper_median(std::move(energies));
    }
  }

  [[nodiscard]] double error_w(std::size_t i) const {
    const CurveSample& sample = model_.samples[i];
    return error_scale_ * std::max(sample.energy_error_j / sample.time_s, kLeastError * sample.power_w());
  }

  /// Normal equations of a step from `model_.values`.
  struct Normal {
    Eigen::MatrixXd matrix;
    Eigen::VectorXd rhs;
    void add(const Eigen::VectorXd& row, double residual, double error) {
      matrix.noalias() += row * row.transpose() / (error * error);
      rhs += row * (residual / (error * error));
    }
  };

  [[nodiscard]] Normal normal_equations() const {
    Normal normal = {Eigen::MatrixXd::Zero(model_.unknowns(), model_.unknowns()),
                     Eigen::VectorXd::Zero(model_.unknowns())};
    for (std::size_t i = 0; i < model_.samples.size(); ++i) {
      if (!left_out_[i].empty()) continue;
      normal.add(model_.gradient(i), model_.samples[i].power_w() - model_.fitted_w(i), error_w(i));
    }
    add_expectations(normal);
    add_smoothness(normal);
    return normal;
  }

  void add_expectations(Normal& normal) const {
    const auto expect = [&](Eigen::Index place, double value, double error) {
      Eigen::VectorXd row = Eigen::VectorXd::Zero(model_.unknowns());
      row[place] = 1;
      normal.add(row, value - model_.values[place], error);
    };
    expect(kPerKelvin, kPerKelvinW.value, kPerKelvinW.error);
    expect(kDrift, kDriftW.value, kDriftW.error);
    expect(kAwake, kAwakeW.value, kAwakeW.error);
    expect(kLoss, options_.loss_per_kw.value, std::max(options_.loss_per_kw.error, 1e-6));
    const double static_w = model_.values[kStatic];
    expect(kTree, options_.clock_tree_share.value * static_w,
           std::max(options_.clock_tree_share.error, 1e-6) * static_w);
    for (const auto& [fixed, clocked] : {std::pair{kByteFixed, kByteClocked}, std::pair{kCacheFixed, kCacheClocked}}) {
      const double share = options_.byte_clock_share.value;
      const double pj = model_.values[fixed] + model_.values[clocked];
      Eigen::VectorXd row = Eigen::VectorXd::Zero(model_.unknowns());
      row[clocked] = 1 - share;
      row[fixed] = -share;
      normal.add(row, -row.dot(model_.values), std::max(options_.byte_clock_share.error, 1e-6) * std::max(pj, 1.0));
      // Without such reads both are 0.
      if (pj == 0) expect(fixed, 0, 1e-6);
    }
    for (Eigen::Index k = 0; k < static_cast<Eigen::Index>(model_.kinds.size()); ++k) {
      constexpr double kUnknown = 100;  // so that a kind without samples that are used has a value
      expect(kLoads + k, model_.values[kLoads + k], kUnknown);
    }
  }

  /// The slope of V^2 changes from knot to knot by no more than this step of V^2, so that noise does not bend it.
  void add_smoothness(Normal& normal) const {
    constexpr double kBend = 0.02;
    const auto count = static_cast<Eigen::Index>(model_.table.knots().size());
    for (Eigen::Index k = 0; k + 1 < count; ++k) {
      Eigen::VectorXd row = Eigen::VectorXd::Zero(model_.unknowns());
      row[model_.first_knot() + k] = 1;
      row[model_.first_knot() + k + 1] = -2;
      double bend = model_.values[model_.first_knot() + k] - 2 * model_.values[model_.first_knot() + k + 1];
      if (k + 2 < count) {
        row[model_.first_knot() + k + 2] = 1;
        bend += model_.values[model_.first_knot() + k + 2];
      } else {
        bend += 1;  // the highest clock
      }
      normal.add(row, -bend, kBend);
    }
  }

  /// Values and errors depend on each other.
  void settle() {
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds; ++round) {
      solve();
      scale_errors();
    }
    solve();
  }

  void solve() {
    constexpr int kSteps = 60;
    for (int step = 0; step < kSteps; ++step) {
      const Normal normal = normal_equations();
      const Eigen::VectorXd change = normal.matrix.ldlt().solve(normal.rhs);
      if (!change.allFinite()) throw InputError("the samples of the curve contradict each other: the fit has no end");
      // Half a step at first: V^2 and energies multiply each other.
      model_.values += (step < 3 ? 0.5 : 1.0) * change;
      for (Eigen::Index k = model_.first_knot(); k < model_.unknowns(); ++k)
        model_.values[k] = std::clamp(model_.values[k], 0.02, 1.2);
      for (const Eigen::Index place : {kTree, kLoss, kByteFixed, kByteClocked, kCacheFixed, kCacheClocked})
        model_.values[place] = std::max(0.0, model_.values[place]);
      if (change.cwiseAbs().maxCoeff() < 1e-9 * (1 + model_.values.cwiseAbs().maxCoeff())) break;
    }
    covariance_ =
        normal_equations().matrix.ldlt().solve(Eigen::MatrixXd::Identity(model_.unknowns(), model_.unknowns()));
  }

  /// Deviation of a sample from the fit in its standard deviations, which are smaller where the fit follows the sample.
  /// Empty where the fit takes the sample as it is, so that it says nothing.
  [[nodiscard]] std::optional<double> deviation(std::size_t i) const {
    constexpr double kFollowed = 0.8;
    const double error = error_w(i);
    const Eigen::VectorXd row = model_.gradient(i) / error;
    const double leverage = row.dot(covariance_ * row);
    if (leverage > kFollowed) return std::nullopt;
    return (model_.samples[i].power_w() - model_.fitted_w(i)) / error / std::sqrt(1 - leverage);
  }

  /// Raises the errors so that they explain the residuals; does not lower them below what the samples say.
  void scale_errors() {
    std::vector<double> deviations;
    for (std::size_t i = 0; i < model_.samples.size(); ++i) {
      if (!left_out_[i].empty()) continue;
      if (const auto off = deviation(i)) deviations.push_back(std::fabs(*off));
    }
    if (deviations.empty()) return;
    constexpr double kMedianOfNormal = 0.6745;
    error_scale_ = std::max(1.0, error_scale_ * upper_median(std::move(deviations)) / kMedianOfNormal);
  }

  /// Repeats of a load miss the fit together where the form of the model does. Errors of the readings alone, which
  /// count repeats as independent, are then too small: adds the scatter of whole loads.
  void add_errors_of_loads() {
    std::vector<std::pair<CurveLoad, Eigen::VectorXd>> pulls;
    for (std::size_t i = 0; i < model_.samples.size(); ++i) {
      if (!left_out_[i].empty()) continue;
      const CurveSample& sample = model_.samples[i];
      const double error = error_w(i);
      const Eigen::VectorXd pull = model_.gradient(i) * ((sample.power_w() - model_.fitted_w(i)) / (error * error));
      const auto found = std::ranges::find(pulls, sample.load, &std::pair<CurveLoad, Eigen::VectorXd>::first);
      if (found == pulls.end()) {
        pulls.emplace_back(sample.load, pull);
      } else {
        found->second += pull;
      }
    }
    const Eigen::MatrixXd of_readings = covariance_;
    for (const auto& [load, pull] : pulls) {
      const Eigen::VectorXd moved = of_readings * pull;
      covariance_.noalias() += moved * moved.transpose();
    }
  }

  /// The worst alone, since it draws the fit away from others. Whether there was one.
  bool leave_out_outlier() {
    double worst = kOutlier;
    std::optional<std::size_t> outlier;
    for (std::size_t i = 0; i < model_.samples.size(); ++i) {
      if (!left_out_[i].empty()) continue;
      const double power_w = model_.samples[i].power_w();
      const double off = std::fabs(deviation(i).value_or(0));
      if (off < worst || std::fabs(power_w - model_.fitted_w(i)) < kOutlierShare * power_w) continue;
      worst = off;
      outlier = i;
    }
    if (!outlier) return false;
    const double power_w = model_.samples[*outlier].power_w();
    left_out_[*outlier] = fmt::format("outlier: {:+.1f} W of {:.1f} W", power_w - model_.fitted_w(*outlier), power_w);
    return true;
  }

  [[nodiscard]] Estimated estimated(Eigen::Index place) const {
    return {model_.values[place], std::sqrt(std::max(0.0, covariance_(place, place)))};
  }

  [[nodiscard]] CurveFit result() const {
    CurveFit fit;
    fit.max_clock_mhz = model_.max_mhz;
    fit.static_power = {.at_reference_w = estimated(kStatic),
                        .reference_c = power::kReferenceC,
                        .per_k_w = estimated(kPerKelvin),
                        .clock_tree_w = estimated(kTree)};
    constexpr double kShown = 0.7;
    fit.static_power.clock_tree_assumed =
        fit.static_power.clock_tree_w.error > kShown * options_.clock_tree_share.error * model_.values[kStatic];
    fit.drift_w = estimated(kDrift);
    fit.loss_per_kw = estimated(kLoss);
    add_bytes(fit);
    add_loads(fit);
    fit.voltage = table();
    add_samples(fit);
    return fit;
  }

  /// Energy of a byte at the highest clock, with the part that `shared_pj` adds to it, and the share that follows V^2.
  [[nodiscard]] std::pair<Estimated, Estimated> byte_energy(Eigen::Index fixed, Eigen::Index clocked,
                                                            double shared_pj) const {
    const auto deviation = [](double variance) { return std::sqrt(std::max(0.0, variance)); };
    const Estimated pj = {
        model_.values[fixed] + model_.values[clocked] + shared_pj,
        deviation(covariance_(fixed, fixed) + covariance_(clocked, clocked) + 2 * covariance_(fixed, clocked))};
    return {
        pj,
        {std::clamp(model_.values[clocked] / pj.value, 0.0, 1.0), deviation(covariance_(clocked, clocked)) / pj.value}};
  }

  void add_bytes(CurveFit& fit) const {
    fit.byte_clock_share = fit.cache_clock_share = options_.byte_clock_share;
    if (model_.values[kCacheFixed] + model_.values[kCacheClocked] > 0) {
      std::tie(fit.cache_pj, fit.cache_clock_share) = byte_energy(kCacheFixed, kCacheClocked, 0);
    }
    double most = 0;
    for (const CurveSample& sample : model_.samples) most = std::max(most, sample.bytes / sample.time_s / kTera);
    if (most == 0) return;
    std::tie(fit.byte_pj, fit.byte_clock_share) =
        byte_energy(kByteFixed, kByteClocked, model_.values[kAwake] * awake_share(most) / most);
  }

  void add_loads(CurveFit& fit) const {
    for (std::size_t k = 0; k < model_.kinds.size(); ++k) {
      LoadEnergy load = {.load = model_.kinds[k], .pj = estimated(kLoads + static_cast<Eigen::Index>(k))};
      for (std::size_t i = 0; i < model_.samples.size(); ++i) {
        const CurveSample& sample = model_.samples[i];
        if (!left_out_[i].empty() || !rate_shows_clock(sample.load) || kind_of(sample.load) != model_.kinds[k])
          continue;
        load.ops_per_cycle_sm += ops_per_cycle(sample);
        ++load.samples;
      }
      if (load.samples > 0) load.ops_per_cycle_sm /= load.samples;
      fit.loads.push_back(load);
    }
  }

  [[nodiscard]] power::VoltageCurve table() const {
    std::vector<power::VoltagePoint> points;
    for (std::size_t k = 0; k < model_.table.knots().size(); ++k) {
      const Estimated v2 = estimated(model_.first_knot() + static_cast<Eigen::Index>(k));
      points.push_back({model_.table.knots()[k], v2.value, v2.error});
    }
    points.push_back({model_.max_mhz, 1, 0});
    make_monotone(points);
    const double from_mhz = points.front().clock_mhz;
    const double to_mhz = options_.lowest_clock_mhz > 0 ? options_.lowest_clock_mhz : from_mhz / 2;
    return {with_extrapolation(std::move(points), to_mhz), from_mhz};
  }

  void add_samples(CurveFit& fit) const {
    double squares = 0;
    int used = 0;
    for (std::size_t i = 0; i < model_.samples.size(); ++i) {
      const CurveSample& sample = model_.samples[i];
      const PowerModel::Terms now = model_.terms(i);
      fit.samples.push_back({.clock_mhz = model_.clocks[i], .fitted_w = model_.fitted_w(i), .left_out = left_out_[i]});
      if (now.load > 0) {
        fit.samples.back().relative_v2 = now.v2 + (sample.power_w() - model_.fitted_w(now)) / model_.slope_w(now);
        fit.samples.back().relative_v2_error = error_w(i) / model_.slope_w(now);
      }
      if (!left_out_[i].empty()) continue;
      squares += std::pow(sample.power_w() / fit.samples.back().fitted_w - 1, 2);
      ++used;
    }
    if (used > 0) fit.residual = std::sqrt(squares / used);
  }

  PowerModel model_;
  CurveFitOptions options_;
  std::vector<std::string> left_out_;
  Eigen::MatrixXd covariance_;
  double error_scale_ = 1;
};

}  // namespace

CurveFit fit_curve(std::span<const CurveSample> samples, const CurveFitOptions& options) {
  return Fit(samples, options).run();
}

}  // namespace lowgear::curve
