#include "rivals/policies/perseus/exponential_fit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <array>
#include <cmath>
#include <cstddef>
#include <unsupported/Eigen/NonLinearOptimization>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "planning/profile/stage_profile.h"
#include "rivals/formats/perseus_plan.h"

namespace lowgear::policies {

namespace {

/// Residuals and Jacobian in the form that Eigen's port of MINPACK expects; parameters are scale, rate and offset.
struct ExponentialResiduals {
  Eigen::ArrayXd units;
  Eigen::ArrayXd energy_j;

  [[nodiscard]] static int inputs() { return 3; }
  [[nodiscard]] int values() const { return static_cast<int>(units.size()); }

  int operator()(const Eigen::VectorXd& parameters, Eigen::VectorXd& residuals) const {
    residuals = (parameters[0] * (parameters[1] * units).exp() + parameters[2] - energy_j).matrix();
    return 0;
  }

  int df(const Eigen::VectorXd& parameters, Eigen::MatrixXd& jacobian) const {
    const Eigen::ArrayXd growth = (parameters[1] * units).exp();
    jacobian.col(0) = growth;
    jacobian.col(1) = parameters[0] * units * growth;
    jacobian.col(2).setOnes();
    return 0;
  }
};

constexpr std::size_t kParameters = 3;

ExponentialResiduals residuals_of(std::span<const CurvePoint> points) {
  const auto count = static_cast<Eigen::Index>(points.size());
  ExponentialResiduals residuals{Eigen::ArrayXd(count), Eigen::ArrayXd(count)};
  for (Eigen::Index i = 0; i < count; ++i) {
    residuals.units[i] = points[static_cast<std::size_t>(i)].units;
    residuals.energy_j[i] = points[static_cast<std::size_t>(i)].energy_j;
  }
  return residuals;
}

struct Fit {
  ExponentialCurve curve;
  double squared_error = 0;
};

/// Whether (J'J)^-1, and with it the covariance of the parameters, is finite.
bool covariance_is_finite(const ExponentialResiduals& residuals, const Eigen::VectorXd& parameters) {
  Eigen::MatrixXd jacobian(residuals.values(), 3);
  residuals.df(parameters, jacobian);
  const Eigen::Matrix3d normal = jacobian.transpose() * jacobian;
  return normal.allFinite() && normal.inverse().allFinite();
}

std::optional<Fit> fit_from(ExponentialResiduals& residuals, const ExponentialCurve& start) {
  constexpr double kTolerance = 1.49012e-8;
  // Twice what the hardest of the published profiles needs. The artifact gives up at 50,000, with an error, and counts
  // four for what is one here, as its Jacobian is numeric.
  constexpr int kMaxEvaluations = 2000;
  Eigen::VectorXd parameters(3);
  parameters << start.scale_j, start.rate_per_unit, start.offset_j;
  Eigen::LevenbergMarquardt<ExponentialResiduals> optimiser(residuals);
  optimiser.parameters.ftol = kTolerance;
  optimiser.parameters.xtol = kTolerance;
  optimiser.parameters.gtol = 0;
  optimiser.parameters.maxfev = kMaxEvaluations;
  const auto status = optimiser.minimize(parameters);
  const bool converged = status >= Eigen::LevenbergMarquardtSpace::RelativeReductionTooSmall &&
                         status <= Eigen::LevenbergMarquardtSpace::CosinusTooSmall;
  if (!converged || !parameters.allFinite() || parameters[0] < 0 || !covariance_is_finite(residuals, parameters)) {
    return std::nullopt;
  }
  Eigen::VectorXd values(residuals.values());
  residuals(parameters, values);
  const double squared_error = values.squaredNorm();
  if (!std::isfinite(squared_error)) return std::nullopt;
  return Fit{{parameters[0], parameters[1], parameters[2]}, squared_error};
}

/// The curve of this rate and of least squared error; not finite where the points do not determine it.
ExponentialCurve best_of_rate(const ExponentialResiduals& residuals, double rate_per_unit) {
  // Growth is taken from the first point on, as far away it may be below the smallest double.
  const double first = residuals.units[0];
  const Eigen::ArrayXd growth = (rate_per_unit * (residuals.units - first)).exp();
  const Eigen::ArrayXd growth_off = growth - growth.mean();
  const double scale_j = (growth_off * residuals.energy_j).sum() / growth_off.square().sum();
  const double offset_j = (residuals.energy_j - scale_j * growth).mean();
  return {scale_j * std::exp(-rate_per_unit * first), rate_per_unit, offset_j};
}

void keep_better(std::optional<Fit>& best, const std::optional<Fit>& fit) {
  if (fit && (!best || fit->squared_error < best->squared_error)) best = fit;
}

constexpr std::array<double, 6> kDecaysPerMs = {0.01, 0.02, 0.03, 0.04, 0.05, 0.1};

double rate_of(double decay_per_ms, double unit_s) {
  constexpr double kMillisecond = 1e-3;
  return -decay_per_ms * unit_s / kMillisecond;
}

/// From Perseus' starting points.
std::optional<Fit> fit_from_all(ExponentialResiduals& residuals, double unit_s) {
  constexpr std::array<double, 3> kMagnitudesJ = {10, 100, 1000};
  std::optional<Fit> best;
  for (const double scale_j : kMagnitudesJ) {
    for (const double offset_j : kMagnitudesJ) {
      for (const double decay_per_ms : kDecaysPerMs) {
        keep_better(best, fit_from(residuals, {scale_j, rate_of(decay_per_ms, unit_s), offset_j}));
      }
    }
  }
  return best;
}

/// Given a rate, scale and offset are linear least squares: one start for the nine of each rate. Where every rate's
/// start ends in the same curve, the minimum is plain, and Perseus' starts end there, too. Where some do not, it
/// depends on the start where the search stops, and only Perseus' own starts stop where it does.
std::optional<Fit> fit_that_all_rates_agree_on(ExponentialResiduals& residuals, double unit_s) {
  constexpr double kSame = 1e-6;  // of the rate, which moves most where the minimum is flat
  std::optional<Fit> best;
  for (const double decay_per_ms : kDecaysPerMs) {
    const auto fit = fit_from(residuals, best_of_rate(residuals, rate_of(decay_per_ms, unit_s)));
    if (!fit) return std::nullopt;
    if (best && !(std::abs(fit->curve.rate_per_unit / best->curve.rate_per_unit - 1) <= kSame)) return std::nullopt;
    keep_better(best, fit);
  }
  return best;
}

}  // namespace

double ExponentialCurve::energy_j(double units) const { return scale_j * std::exp(rate_per_unit * units) + offset_j; }

std::optional<ExponentialCurve> fit_exponential(std::span<const CurvePoint> points, double unit_s) {
  if (points.size() <= kParameters) return std::nullopt;
  ExponentialResiduals residuals = residuals_of(points);
  std::optional<Fit> best = fit_that_all_rates_agree_on(residuals, unit_s);
  if (!best) best = fit_from_all(residuals, unit_s);
  if (!best) return std::nullopt;
  return best->curve;
}

std::optional<ExponentialCurve> fit_exponential_from(std::span<const CurvePoint> points,
                                                     const ExponentialCurve& start) {
  if (points.size() <= kParameters) return std::nullopt;
  ExponentialResiduals residuals = residuals_of(points);
  const auto fit = fit_from(residuals, start);
  if (!fit) return std::nullopt;
  return fit->curve;
}

namespace {

constexpr std::string_view kShape = "the file is {'Forward': [(scale, rate, offset), ...], 'Backward': [...]}";

class GuessParser {
 public:
  GuessParser(std::string_view text, const std::string& source) : cursor_(text), source_(source) {}

  InitialGuess parse() {
    expect('{');
    while (!accept('}')) {
      parse_instruction();
      if (!accept(',') && cursor_.peek() != '}') fail();
    }
    cursor_.skip_blank();
    if (!cursor_.at_end() || guess_.empty()) fail();
    return guess_;
  }

 private:
  void parse_instruction() {
    const OpKind kind = parse_kind();
    expect(':');
    const char end = open();
    int stage = 0;
    while (!accept(end)) {
      if (stage == profile::kMaxStages || !guess_.emplace(std::pair(stage, kind), parse_curve()).second) fail();
      ++stage;
      if (!accept(',') && cursor_.peek() != end) fail();
    }
  }

  OpKind parse_kind() {
    cursor_.skip_blank();
    const char mark = cursor_.peek();
    if (mark != '\'' && mark != '"') fail();
    const std::size_t begin = cursor_.position() + 1;
    const std::size_t end = cursor_.text().find(mark, begin);
    const std::string_view word =
        end == std::string_view::npos ? std::string_view() : cursor_.text().substr(begin, end - begin);
    if (word != "Forward" && word != "Backward") fail();
    cursor_.move_to(end + 1);
    return word == "Forward" ? OpKind::forward : OpKind::backward;
  }

  ExponentialCurve parse_curve() {
    const char end = open();
    ExponentialCurve curve;
    curve.scale_j = parse_value();
    expect(',');
    curve.rate_per_unit = parse_value();
    expect(',');
    curve.offset_j = parse_value();
    accept(',');
    expect(end);
    return curve;
  }

  double parse_value() {
    cursor_.skip_blank();
    const std::size_t begin = cursor_.position();
    const std::string_view word =
        cursor_.text().substr(begin, cursor_.text().find_first_of(" \t\r\n,)]#", begin) - begin);
    const auto value = parse_number(word);
    if (!value || !std::isfinite(*value)) {
      throw_input_error(location(), fmt::format("{} is not a finite number", quote(word)),
                        "write scale, rate and offset of each curve as numbers");
    }
    cursor_.move_to(begin + word.size());
    return *value;
  }

  /// Opens a list or tuple; returns what closes it.
  char open() {
    if (accept('[')) return ']';
    expect('(');
    return ')';
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail();
  }

  bool accept(char wanted) { return cursor_.accept(wanted); }

  [[noreturn]] void fail() const { throw_input_error(location(), "no initial guess", kShape); }
  [[nodiscard]] SourceLocation location() const { return locate(cursor_.text(), cursor_.position(), source_); }

  formats::LiteralCursor cursor_;
  const std::string& source_;
  InitialGuess guess_;
};

}  // namespace

InitialGuess read_initial_guess(std::string_view text, const std::string& source) {
  return GuessParser(text, source).parse();
}

}  // namespace lowgear::policies
