#include "estimating/curve/curve_fit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/core/error.h"
#include "base/core/numbers/median.h"
#include "estimating/curve/voltage_table.h"

namespace lowgear::curve {
namespace {

using power::Estimated;

constexpr double kTera = 1e12;
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

CurveLoad kind_of(CurveLoad load) {
  load.product_sms = 0;
  load.stream_sms = 0;
  return load;
}

/// Rate of reads at which memory draws half of what it draws for being awake.
constexpr double kHalfAwake = 0.5;
double awake_share(double tera_bytes) { return tera_bytes / (tera_bytes + kHalfAwake); }

/// Parameters of the fit by their place in the vector; energies of loads from `kLoads` on, then V^2 of the knots.
enum Place : Eigen::Index { kStatic, kPerKelvin, kDrift, kTree, kByteFixed, kByteClocked, kAwake, kLoss, kLoads };

/// Operations of a multiprocessor in a cycle of the reported clock.
double ops_per_cycle(const CurveSample& sample) {
  return sample.operations / sample.time_s / (sample.clock_mhz * 1e6) / sample.load.product_sms;
}

/// A kind's operations in a cycle at steady clocks. The driver reports no more than the highest clock, also where the
/// GPU runs a step or two above it, so the lower values count. Empty without a steady sample.
std::optional<double> steady_ops_per_cycle(std::span<const CurveSample> samples, const CurveLoad& kind) {
  constexpr double kSteadyMhz = 30;
  std::vector<double> values;
  for (const CurveSample& sample : samples) {
    const bool steady =
        sample.highest_clock_mhz > 0 && sample.highest_clock_mhz - sample.lowest_clock_mhz <= kSteadyMhz;
    if (sample.load.product_sms > 0 && kind_of(sample.load) == kind && steady) values.push_back(ops_per_cycle(sample));
  }
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  return values[values.size() / 4];
}

/// Clocks of samples by the rate of their products; the reported mean where there are none, or where the rate depends
/// on more than the clock.
std::vector<double> clocks_by_rate(std::span<const CurveSample> samples) {
  constexpr double kPlausible = 0.04;
  std::vector<double> clocks;
  for (const CurveSample& sample : samples) {
    clocks.push_back(sample.clock_mhz);
    if (sample.load.product_sms == 0) continue;
    const auto steady = steady_ops_per_cycle(samples, kind_of(sample.load));
    if (!steady) continue;
    const double relative = ops_per_cycle(sample) / *steady;
    if (std::fabs(relative - 1) <= kPlausible) clocks.back() *= relative;
  }
  return clocks;
}

class Fit {
 public:
  Fit(std::span<const CurveSample> samples, const CurveFitOptions& options) : samples_(samples), options_(options) {
    require_enough();
    for (const CurveSample& sample : samples) max_mhz_ = std::max(max_mhz_, sample.clock_mhz);
    max_mhz_ = std::round(max_mhz_);
    clocks_ = clocks_by_rate(samples);
    for (const CurveSample& sample : samples) {
      if (sample.load.product_sms == 0) continue;
      const CurveLoad kind = kind_of(sample.load);
      if (std::ranges::find(kinds_, kind) == kinds_.end()) kinds_.push_back(kind);
    }
    left_out_.resize(samples.size());
    leave_out_unfit();
    table_ = VoltageTable(used_clocks(), max_mhz_, kSameClockMhz);
    if (table_.knots().empty()) {
      throw InputError(
          "no sample ran below the highest clock: the power limit held none of these loads down, so they do not show "
          "the voltage of lower clocks");
    }
    start_values();
  }

  [[nodiscard]] CurveFit run() {
    settle();
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds && leave_out_outliers(); ++round) settle();
    return result();
  }

 private:
  void require_enough() const {
    constexpr std::size_t kFewest = 8;
    if (samples_.size() >= kFewest) return;
    throw InputError(fmt::format("{} samples are too few for a curve; it needs {} or more", samples_.size(), kFewest));
  }

  void leave_out_unfit() {
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const CurveSample& sample = samples_[i];
      const bool idle = sample.load.product_sms == 0 && sample.load.stream_sms == 0;
      if (sample.thermal_s > 0) {
        left_out_[i] = "heat held the clock down";
      } else if (idle && sample.clock_mhz < max_mhz_ - kSameClockMhz) {
        left_out_[i] = "idle below the highest clock";
      }
    }
  }

  [[nodiscard]] std::vector<double> used_clocks() const {
    std::vector<double> clocks;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (left_out_[i].empty()) clocks.push_back(clocks_[i]);
    }
    return clocks;
  }

  [[nodiscard]] Eigen::Index first_knot() const { return kLoads + static_cast<Eigen::Index>(kinds_.size()); }
  [[nodiscard]] Eigen::Index unknowns() const {
    return first_knot() + static_cast<Eigen::Index>(table_.knots().size());
  }

  void start_values() {
    values_ = Eigen::VectorXd::Zero(unknowns());
    double least_w = std::numeric_limits<double>::max();
    for (const CurveSample& sample : samples_) least_w = std::min(least_w, sample.power_w());
    values_[kStatic] = least_w;
    values_[kTree] = options_.clock_tree_share.value * least_w;
    values_[kPerKelvin] = kPerKelvinW.value;
    for (std::size_t k = 0; k < table_.knots().size(); ++k) {
      values_[first_knot() + static_cast<Eigen::Index>(k)] = table_.knots()[k] / max_mhz_;
    }
    const bool streams = std::ranges::any_of(samples_, [](const CurveSample& s) { return s.bytes > 0; });
    constexpr double kPicojoulesPerByte = 50;
    if (streams) values_[kByteFixed] = values_[kByteClocked] = kPicojoulesPerByte;
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      std::vector<double> energies;
      for (const CurveSample& sample : samples_) {
        if (sample.load.product_sms > 0 && kind_of(sample.load) == kinds_[k] && sample.operations > 0) {
          energies.push_back((sample.power_w() - least_w) * sample.time_s / sample.operations * kTera);
        }
      }
      values_[kLoads + static_cast<Eigen::Index>(k)] = energies.empty() ? 1 : upper_median(std::move(energies));
    }
  }

  /// Values of a sample that the model multiplies its parameters by.
  struct Terms {
    double static_time = 0;  ///< share of all the time, -0.5 to 0.5
    double kelvin = 0;
    double clock = 0;  ///< as a share of the highest
    double v2 = 1;
    double tera_ops = 0;    ///< in a second
    double tera_bytes = 0;  ///< in a second
    Eigen::Index load = 0;  ///< place of its energy; 0: none
  };
  [[nodiscard]] Terms terms(std::size_t i) const {
    const CurveSample& sample = samples_[i];
    const double last_s = std::max(1.0, samples_.back().begin_s);
    Terms terms = {.static_time = sample.begin_s / last_s - 0.5,
                   .kelvin = sample.temperature_c - power::kReferenceC,
                   .clock = clocks_[i] / max_mhz_,
                   .tera_ops = sample.operations / sample.time_s / kTera,
                   .tera_bytes = sample.bytes / sample.time_s / kTera};
    terms.v2 = v2_at(clocks_[i]);
    const auto kind = std::ranges::find(kinds_, kind_of(sample.load));
    if (sample.load.product_sms > 0 && kind != kinds_.end()) terms.load = kLoads + (kind - kinds_.begin());
    return terms;
  }

  [[nodiscard]] double v2_at(double clock_mhz) const {
    double v2 = 0;
    for (const VoltageTable::Weight& weight : table_.weights(clock_mhz)) {
      v2 += weight.weight * (weight.knot < 0 ? 1 : values_[first_knot() + weight.knot]);
    }
    return v2;
  }

  [[nodiscard]] double fixed_w(const Terms& terms) const {
    return values_[kStatic] + values_[kPerKelvin] * terms.kelvin + values_[kDrift] * terms.static_time -
           values_[kTree] + values_[kByteFixed] * terms.tera_bytes + values_[kAwake] * awake_share(terms.tera_bytes);
  }
  /// Power of work that goes with V^2, where that is 1.
  [[nodiscard]] double work_w(const Terms& terms) const {
    const double operations_w = terms.load > 0 ? values_[terms.load] * terms.tera_ops : 0;
    return operations_w + values_[kByteClocked] * terms.tera_bytes;
  }
  [[nodiscard]] double fitted_w(const Terms& terms) const {
    const double work_w = this->work_w(terms) * terms.v2;
    return fixed_w(terms) + values_[kTree] * terms.clock * terms.v2 + work_w + values_[kLoss] * work_w * work_w / 1e3;
  }
  [[nodiscard]] double fitted_w(std::size_t i) const { return fitted_w(terms(i)); }
  /// Growth of the delivered power with that of the work.
  [[nodiscard]] double delivery(const Terms& terms) const {
    return 1 + 2 * values_[kLoss] * work_w(terms) * terms.v2 / 1e3;
  }
  /// Growth of the power with V^2.
  [[nodiscard]] double slope_w(const Terms& terms) const {
    return values_[kTree] * terms.clock + work_w(terms) * delivery(terms);
  }

  [[nodiscard]] Eigen::VectorXd gradient(std::size_t i) const {
    const Terms now = terms(i);
    Eigen::VectorXd row = Eigen::VectorXd::Zero(unknowns());
    row[kStatic] = 1;
    row[kPerKelvin] = now.kelvin;
    row[kDrift] = now.static_time;
    row[kTree] = now.clock * now.v2 - 1;
    row[kByteFixed] = now.tera_bytes;
    row[kByteClocked] = now.tera_bytes * now.v2 * delivery(now);
    row[kAwake] = awake_share(now.tera_bytes);
    row[kLoss] = std::pow(work_w(now) * now.v2, 2) / 1e3;
    if (now.load > 0) row[now.load] = now.tera_ops * now.v2 * delivery(now);
    for (const VoltageTable::Weight& weight : table_.weights(clocks_[i])) {
      if (weight.knot >= 0) row[first_knot() + weight.knot] = weight.weight * slope_w(now);
    }
    return row;
  }

  [[nodiscard]] double error_w(std::size_t i) const {
    const CurveSample& sample = samples_[i];
    return error_scale_ * std::max(sample.energy_error_j / sample.time_s, kLeastError * sample.power_w());
  }

  /// Normal equations of a step from `values_`.
  struct Normal {
    Eigen::MatrixXd matrix;
    Eigen::VectorXd rhs;
    void add(const Eigen::VectorXd& row, double residual, double error) {
      matrix.noalias() += row * row.transpose() / (error * error);
      rhs += row * (residual / (error * error));
    }
  };

  [[nodiscard]] Normal normal_equations() const {
    Normal normal = {Eigen::MatrixXd::Zero(unknowns(), unknowns()), Eigen::VectorXd::Zero(unknowns())};
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (!left_out_[i].empty()) continue;
      normal.add(gradient(i), samples_[i].power_w() - fitted_w(i), error_w(i));
    }
    add_expectations(normal);
    add_smoothness(normal);
    return normal;
  }

  void add_expectations(Normal& normal) const {
    const auto expect = [&](Eigen::Index place, double value, double error) {
      Eigen::VectorXd row = Eigen::VectorXd::Zero(unknowns());
      row[place] = 1;
      normal.add(row, value - values_[place], error);
    };
    expect(kPerKelvin, kPerKelvinW.value, kPerKelvinW.error);
    expect(kDrift, kDriftW.value, kDriftW.error);
    expect(kAwake, kAwakeW.value, kAwakeW.error);
    expect(kLoss, options_.loss_per_kw.value, std::max(options_.loss_per_kw.error, 1e-6));
    const double static_w = values_[kStatic];
    expect(kTree, options_.clock_tree_share.value * static_w,
           std::max(options_.clock_tree_share.error, 1e-6) * static_w);
    const double byte_pj = std::max(values_[kByteFixed] + values_[kByteClocked], 1.0);
    const double share = options_.byte_clock_share.value;
    Eigen::VectorXd row = Eigen::VectorXd::Zero(unknowns());
    row[kByteClocked] = 1 - share;
    row[kByteFixed] = -share;
    normal.add(row, -row.dot(values_), std::max(options_.byte_clock_share.error, 1e-6) * byte_pj);
    // Without streams both are 0.
    if (values_[kByteFixed] + values_[kByteClocked] == 0) expect(kByteFixed, 0, 1e-6);
    for (Eigen::Index k = 0; k < static_cast<Eigen::Index>(kinds_.size()); ++k) {
      constexpr double kUnknown = 100;  // so that a kind without samples that are used has a value
      expect(kLoads + k, values_[kLoads + k], kUnknown);
    }
  }

  /// The slope of V^2 changes from knot to knot by no more than this step of V^2, so that noise does not bend it.
  void add_smoothness(Normal& normal) const {
    constexpr double kBend = 0.02;
    const auto count = static_cast<Eigen::Index>(table_.knots().size());
    for (Eigen::Index k = 0; k + 1 < count; ++k) {
      Eigen::VectorXd row = Eigen::VectorXd::Zero(unknowns());
      row[first_knot() + k] = 1;
      row[first_knot() + k + 1] = -2;
      double bend = values_[first_knot() + k] - 2 * values_[first_knot() + k + 1];
      if (k + 2 < count) {
        row[first_knot() + k + 2] = 1;
        bend += values_[first_knot() + k + 2];
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
      values_ += (step < 3 ? 0.5 : 1.0) * change;
      for (Eigen::Index k = first_knot(); k < unknowns(); ++k) values_[k] = std::clamp(values_[k], 0.02, 1.2);
      for (const Eigen::Index place : {kTree, kLoss, kByteFixed, kByteClocked})
        values_[place] = std::max(0.0, values_[place]);
      if (change.cwiseAbs().maxCoeff() < 1e-9 * (1 + values_.cwiseAbs().maxCoeff())) break;
    }
    covariance_ = normal_equations().matrix.ldlt().solve(Eigen::MatrixXd::Identity(unknowns(), unknowns()));
  }

  /// Deviation of a sample from the fit in its standard deviations, which are smaller where the fit follows the sample.
  /// Empty where the fit takes the sample as it is, so that it says nothing.
  [[nodiscard]] std::optional<double> deviation(std::size_t i) const {
    constexpr double kFollowed = 0.8;
    const double error = error_w(i);
    const Eigen::VectorXd row = gradient(i) / error;
    const double leverage = row.dot(covariance_ * row);
    if (leverage > kFollowed) return std::nullopt;
    return (samples_[i].power_w() - fitted_w(i)) / error / std::sqrt(1 - leverage);
  }

  /// Raises the errors so that they explain the residuals; does not lower them below what the samples say.
  void scale_errors() {
    std::vector<double> deviations;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (!left_out_[i].empty()) continue;
      if (const auto off = deviation(i)) deviations.push_back(std::fabs(*off));
    }
    if (deviations.empty()) return;
    constexpr double kMedianOfNormal = 0.6745;
    error_scale_ = std::max(1.0, error_scale_ * upper_median(std::move(deviations)) / kMedianOfNormal);
  }

  /// Whether there were any.
  bool leave_out_outliers() {
    bool any = false;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (!left_out_[i].empty()) continue;
      const double power_w = samples_[i].power_w();
      const double off_w = power_w - fitted_w(i);
      if (std::fabs(deviation(i).value_or(0)) < kOutlier || std::fabs(off_w) < kOutlierShare * power_w) {
        continue;
      }
      left_out_[i] = fmt::format("outlier: {:+.1f} W of {:.1f} W", off_w, power_w);
      any = true;
    }
    return any;
  }

  [[nodiscard]] Estimated estimated(Eigen::Index place) const {
    return {values_[place], std::sqrt(std::max(0.0, covariance_(place, place)))};
  }

  [[nodiscard]] CurveFit result() const {
    CurveFit fit;
    fit.max_clock_mhz = max_mhz_;
    fit.static_power = {.at_reference_w = estimated(kStatic),
                        .reference_c = power::kReferenceC,
                        .per_k_w = estimated(kPerKelvin),
                        .clock_tree_w = estimated(kTree)};
    constexpr double kShown = 0.7;
    fit.static_power.clock_tree_assumed =
        fit.static_power.clock_tree_w.error > kShown * options_.clock_tree_share.error * values_[kStatic];
    fit.drift_w = estimated(kDrift);
    fit.loss_per_kw = estimated(kLoss);
    add_bytes(fit);
    add_loads(fit);
    fit.voltage = table();
    add_samples(fit);
    return fit;
  }

  void add_bytes(CurveFit& fit) const {
    double most = 0;
    for (const CurveSample& sample : samples_) most = std::max(most, sample.bytes / sample.time_s / kTera);
    fit.byte_clock_share = options_.byte_clock_share;
    if (most == 0) return;
    fit.awake_memory_w = estimated(kAwake);
    fit.byte_fixed_pj = values_[kByteFixed];
    fit.byte_clocked_pj = values_[kByteClocked];
    const double pj = values_[kByteFixed] + values_[kByteClocked] + values_[kAwake] * awake_share(most) / most;
    const double variance = covariance_(kByteFixed, kByteFixed) + covariance_(kByteClocked, kByteClocked) +
                            2 * covariance_(kByteFixed, kByteClocked);
    fit.byte_pj = {pj, std::sqrt(std::max(0.0, variance))};
    const double share = values_[kByteClocked] / pj;
    fit.byte_clock_share = {std::clamp(share, 0.0, 1.0),
                            std::sqrt(std::max(0.0, covariance_(kByteClocked, kByteClocked))) / pj};
  }

  void add_loads(CurveFit& fit) const {
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      LoadEnergy load = {.load = kinds_[k], .pj = estimated(kLoads + static_cast<Eigen::Index>(k))};
      for (std::size_t i = 0; i < samples_.size(); ++i) {
        const CurveSample& sample = samples_[i];
        if (!left_out_[i].empty() || sample.load.product_sms == 0 || kind_of(sample.load) != kinds_[k]) continue;
        load.ops_per_cycle_sm += sample.operations / sample.time_s / (sample.clock_mhz * 1e6) / sample.load.product_sms;
        ++load.samples;
      }
      if (load.samples > 0) load.ops_per_cycle_sm /= load.samples;
      fit.loads.push_back(load);
    }
  }

  [[nodiscard]] power::VoltageCurve table() const {
    std::vector<power::VoltagePoint> points;
    for (std::size_t k = 0; k < table_.knots().size(); ++k) {
      const Estimated v2 = estimated(first_knot() + static_cast<Eigen::Index>(k));
      points.push_back({table_.knots()[k], v2.value, v2.error});
    }
    points.push_back({max_mhz_, 1, 0});
    make_monotone(points);
    const double from_mhz = points.front().clock_mhz;
    const double to_mhz = options_.lowest_clock_mhz > 0 ? options_.lowest_clock_mhz : from_mhz / 2;
    return {with_extrapolation(std::move(points), to_mhz), from_mhz};
  }

  void add_samples(CurveFit& fit) const {
    double squares = 0;
    int used = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const CurveSample& sample = samples_[i];
      const Terms now = terms(i);
      fit.samples.push_back({.clock_mhz = clocks_[i], .fitted_w = fitted_w(i), .left_out = left_out_[i]});
      if (now.load > 0) {
        fit.samples.back().relative_v2 = now.v2 + (sample.power_w() - fitted_w(now)) / slope_w(now);
        fit.samples.back().relative_v2_error = error_w(i) / slope_w(now);
      }
      if (!left_out_[i].empty()) continue;
      squares += std::pow(sample.power_w() / fit.samples.back().fitted_w - 1, 2);
      ++used;
    }
    if (used > 0) fit.residual = std::sqrt(squares / used);
  }

  std::span<const CurveSample> samples_;
  CurveFitOptions options_;
  double max_mhz_ = 0;
  std::vector<double> clocks_;  ///< of the samples
  std::vector<CurveLoad> kinds_;
  std::vector<std::string> left_out_;
  VoltageTable table_;
  Eigen::VectorXd values_;
  Eigen::MatrixXd covariance_;
  double error_scale_ = 1;
};

}  // namespace

std::size_t CurveFit::left_out() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(samples, [](const FittedSample& sample) { return !sample.left_out.empty(); }));
}

CurveFit fit_curve(std::span<const CurveSample> samples, const CurveFitOptions& options) {
  return Fit(samples, options).run();
}

double power_w(const CurveFit& fit, const CurveSample& sample) {
  const double v2 = fit.voltage.relative_v2(sample.clock_mhz);
  const auto& still = fit.static_power;
  const double still_w = still.at_reference_w.value + still.per_k_w.value * (sample.temperature_c - still.reference_c) -
                         still.clock_tree_w.value * (1 - v2 * sample.clock_mhz / fit.max_clock_mhz);
  const double tera_bytes = sample.bytes / sample.time_s / kTera;
  double work_w = fit.byte_clocked_pj * v2 * tera_bytes;
  const auto load = std::ranges::find(fit.loads, kind_of(sample.load), &LoadEnergy::load);
  if (sample.load.product_sms > 0 && load != fit.loads.end()) {
    work_w += load->pj.value * v2 * sample.operations / sample.time_s / kTera;
  }
  return still_w + fit.byte_fixed_pj * tera_bytes + fit.awake_memory_w.value * awake_share(tera_bytes) + work_w +
         fit.loss_per_kw.value * work_w * work_w / 1e3;
}

power::GpuFile gpu_file(const CurveFit& fit, const CurveOrigin& origin) {
  power::GpuFile file;
  file.gpu = origin.gpu;
  file.driver = origin.driver;
  file.date = origin.date;
  file.simulated = origin.simulated;
  file.limit_w = origin.limit_w;
  file.multiprocessors = origin.multiprocessors;
  file.max_clock_mhz = fit.max_clock_mhz;
  file.static_power = fit.static_power;
  file.byte_pj = fit.byte_pj;
  file.byte_clock_share = fit.byte_clock_share;
  file.voltage = fit.voltage;
  for (const ProductType type : {ProductType::bf16, ProductType::fp8, ProductType::tf32}) {
    for (const ProductData data : {ProductData::numbers, ProductData::bits}) {
      const auto load = std::ranges::find(fit.loads, CurveLoad{.type = type, .data = data}, &LoadEnergy::load);
      if (load == fit.loads.end()) continue;
      file.operations.push_back(
          {.type = std::string(name(type)), .at_max_clock_pj = load->pj, .ops_per_cycle_sm = load->ops_per_cycle_sm});
      break;
    }
  }
  return file;
}

}  // namespace lowgear::curve
