#include "planning/steps/work_model.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/core/error.h"
#include "base/core/numbers/median.h"
#include "planning/profile/regression/non_negative_least_squares.h"

namespace lowgear::steps {

namespace {

constexpr int kCoefficients = 3;
/// Coefficients and workers' factors, and coefficients and amounts, settle within these.
constexpr int kWorkerRounds = 3;
constexpr int kAmountRounds = 60;
/// A worker differs from the others by more than this many standard errors, and by more than this share.
constexpr double kSignificance = 3;
constexpr double kLeastDifference = 1e-3;

/// Sums of a least-squares problem of relative errors: each row is divided by its time.
struct Sums {
  Eigen::Matrix3d gram = Eigen::Matrix3d::Zero();
  Eigen::Vector3d rhs = Eigen::Vector3d::Zero();
  double rows = 0;

  void add(const Eigen::Vector3d& row, double time_s) {
    const Eigen::Vector3d relative = row / time_s;
    gram += relative * relative.transpose();
    rhs += relative;
    ++rows;
  }
};

/// Coefficients with the standard errors of those that are positive.
WorkCoefficients solve(const Sums& sums) {
  const Eigen::VectorXd values = profile::solve_non_negative(sums.gram, sums.rhs).values;
  std::vector<int> positive;
  for (int i = 0; i < kCoefficients; ++i) {
    if (values[i] > 0) positive.push_back(i);
  }
  std::array<double, kCoefficients> errors{};
  const auto count = static_cast<double>(positive.size());
  if (!positive.empty() && sums.rows > count) {
    const Eigen::MatrixXd inverse = Eigen::MatrixXd(sums.gram(positive, positive)).inverse();
    const double squares = std::max(0.0, sums.rows - 2 * values.dot(sums.rhs) + values.dot(sums.gram * values));
    for (std::size_t i = 0; i < positive.size(); ++i) {
      const auto place = static_cast<Eigen::Index>(i);
      errors.at(static_cast<std::size_t>(positive[i])) =
          std::sqrt(std::max(0.0, inverse(place, place)) * squares / (sums.rows - count));
    }
  }
  return {values[0], values[1], values[2], errors[0], errors[1], errors[2]};
}

/// Two amounts, not negative, that explain times best: `rows` are (linear, attention) by time.
class AmountSums {
 public:
  void add(double linear, double attention, double sign = 1) {
    a_ += sign * linear * linear;
    b_ += sign * linear * attention;
    c_ += sign * attention * attention;
    u_ += sign * linear;
    v_ += sign * attention;
  }
  [[nodiscard]] Amounts solve() const {
    constexpr double kSingular = 1e-9;
    const double determinant = a_ * c_ - b_ * b_;
    if (determinant > kSingular * a_ * c_) {
      const Amounts both{(c_ * u_ - b_ * v_) / determinant, (a_ * v_ - b_ * u_) / determinant};
      if (both.tokens >= 0 && both.squared_tokens >= 0) return both;
    }
    // What each explains alone, by how much it lowers the squares.
    const double by_linear = a_ > 0 ? u_ * u_ / a_ : 0;
    const double by_attention = c_ > 0 ? v_ * v_ / c_ : 0;
    if (by_linear >= by_attention) return {a_ > 0 ? u_ / a_ : 0, 0};
    return {0, v_ / c_};
  }

 private:
  double a_ = 0, b_ = 0, c_ = 0, u_ = 0, v_ = 0;
};

/// The unit's coefficients by its time: its row for finding amounts.
std::pair<double, double> amount_row(const WorkModel& model, const RecordedUnit& unit) {
  const WorkCoefficients& cell = model.cells().at({unit.stage, unit.kind});
  const double scale = model.worker(unit.replica, unit.stage, unit.kind) / unit.time_s;
  return {cell.linear_s * scale, cell.attention_s * scale};
}

AmountSums sums_of(const WorkModel& model, const MicrobatchTimes& microbatch) {
  AmountSums sums;
  for (const RecordedUnit& unit : microbatch.units) {
    const auto [linear, attention] = amount_row(model, unit);
    sums.add(linear, attention);
  }
  return sums;
}

}  // namespace

namespace {

void check_times(std::span<const RecordedUnit> units) {
  if (units.empty()) throw InputError("no recorded unit has lengths: nothing to fit times to");
  for (const RecordedUnit& unit : units) {
    if (!(unit.time_s > 0))
      throw InputError(fmt::format("a recorded unit takes {} s: it must be above 0", unit.time_s));
  }
}

}  // namespace

WorkModel WorkModel::fit(std::span<const RecordedUnit> units, Constant constant) {
  check_times(units);
  WorkModel model;
  for (int round = 0; round < kWorkerRounds; ++round) {
    model.fit_cells(units, constant);
    model.fit_workers(units);
  }
  model.set_errors(units);
  return model;
}

WorkModel WorkModel::fit_with_workers(std::span<const RecordedUnit> units, std::map<Worker, double> workers,
                                      Constant constant) {
  check_times(units);
  WorkModel model;
  model.workers_ = std::move(workers);
  model.fit_cells(units, constant);
  model.set_errors(units);
  return model;
}

void WorkModel::set_errors(std::span<const RecordedUnit> units) {
  double squares = 0;
  for (const RecordedUnit& unit : units) {
    const double error = time_s(unit.replica, unit.stage, unit.kind, unit.amounts) / unit.time_s - 1;
    squares += error * error;
    most_.tokens = std::max(most_.tokens, unit.amounts.tokens);
    most_.squared_tokens = std::max(most_.squared_tokens, unit.amounts.squared_tokens);
  }
  error_ = std::sqrt(squares / static_cast<double>(units.size()));
}

void WorkModel::fit_cells(std::span<const RecordedUnit> units, Constant constant) {
  std::map<Cell, Sums> sums;
  for (const RecordedUnit& unit : units) {
    const Eigen::Vector3d row(constant == Constant::fitted ? 1 : 0, unit.amounts.tokens, unit.amounts.squared_tokens);
    sums[{unit.stage, unit.kind}].add(row, unit.time_s / worker(unit.replica, unit.stage, unit.kind));
  }
  for (const auto& [cell, of_cell] : sums) cells_[cell] = solve(of_cell);
}

void WorkModel::fit_workers(std::span<const RecordedUnit> units) {
  struct Ratios {
    double sum = 0, squares = 0, count = 0;
  };
  std::map<Worker, Ratios> ratios;
  for (const RecordedUnit& unit : units) {
    const double predicted_s = cells_.at({unit.stage, unit.kind}).time_s(unit.amounts);
    if (!(predicted_s > 0)) continue;
    const double ratio = unit.time_s / predicted_s;
    Ratios& of_worker = ratios[{unit.replica, unit.stage, unit.kind}];
    of_worker.sum += ratio;
    of_worker.squares += ratio * ratio;
    ++of_worker.count;
  }
  std::map<Cell, std::vector<double>> means;
  for (const auto& [worker, of_worker] : ratios) {
    means[{std::get<1>(worker), std::get<2>(worker)}].push_back(of_worker.sum / of_worker.count);
  }
  workers_.clear();
  for (const auto& [worker, of_worker] : ratios) {
    const double typical = median(std::span(means.at({std::get<1>(worker), std::get<2>(worker)})));
    const double mean = of_worker.sum / of_worker.count;
    const double variance = std::max(0.0, of_worker.squares / of_worker.count - mean * mean);
    const double error = std::sqrt(variance / of_worker.count);
    const double least = std::max(kSignificance * error, kLeastDifference * typical);
    if (of_worker.count > 1 && std::abs(mean - typical) > least) workers_[worker] = mean / typical;
  }
}

double WorkModel::worker(int replica, int stage, OpKind kind) const {
  const auto found = workers_.find({replica, stage, kind});
  return found == workers_.end() ? 1 : found->second;
}

double WorkModel::time_s(int replica, int stage, OpKind kind, const Amounts& amounts) const {
  const auto cell = cells_.find({stage, kind});
  if (cell == cells_.end()) {
    throw InputError(fmt::format("no recorded unit is a {} of stage {}: its times are not known", name(kind), stage));
  }
  return worker(replica, stage, kind) * cell->second.time_s(amounts);
}

std::string WorkModel::beyond_fit(std::span<const Amounts> amounts, int microbatches) const {
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    const auto& [tokens, squared] = amounts[i];
    if (tokens <= most_.tokens && squared <= most_.squared_tokens) continue;
    const bool more_tokens = tokens > most_.tokens;
    return fmt::format("microbatch {} of replica {} has {:.9g} {}, and the fit saw at most {:.9g}",
                       i % static_cast<std::size_t>(microbatches), i / static_cast<std::size_t>(microbatches),
                       more_tokens ? tokens : squared, more_tokens ? "tokens" : "squared tokens",
                       more_tokens ? most_.tokens : most_.squared_tokens);
  }
  return "";
}

namespace {

constexpr std::string_view kWorkFormat = "lowgear.work/1";
constexpr int kMostWorkers = 1 << 20;
constexpr double kMostUnitS = 1e6;
constexpr double kMostFactor = 1e3;
constexpr double kMostTokens = 1e12;  ///< and its square of squared tokens

using Coefficient = std::pair<const char*, double WorkCoefficients::*>;
constexpr auto kCoefficientMembers =
    std::to_array<Coefficient>({{"constant_s", &WorkCoefficients::constant_s},
                                {"linear_s", &WorkCoefficients::linear_s},
                                {"attention_s", &WorkCoefficients::attention_s},
                                {"constant_error_s", &WorkCoefficients::constant_error_s},
                                {"linear_error_s", &WorkCoefficients::linear_error_s},
                                {"attention_error_s", &WorkCoefficients::attention_error_s}});

WorkModel::Cell cell_at(const JsonView& row) {
  const std::optional<OpKind> kind = op_kind_from_name(row.at("kind").text());
  if (!kind) row.at("kind").fail("no kind of op");
  return {row.at("stage").integer_in(0, profile::kMaxStages - 1), *kind};
}

}  // namespace

Json WorkModel::json() const {
  Json coefficients = Json::array();
  for (const auto& [cell, of_cell] : cells_) {
    Json row = {{"stage", cell.first}, {"kind", name(cell.second)}};
    for (const auto& [member, value] : kCoefficientMembers) row[member] = of_cell.*value;
    coefficients.push_back(std::move(row));
  }
  Json workers = Json::array();
  for (const auto& [worker, factor] : workers_) {
    const auto& [replica, stage, kind] = worker;
    workers.push_back({{"replica", replica}, {"stage", stage}, {"kind", name(kind)}, {"factor", factor}});
  }
  return {{"coefficients", coefficients},
          {"workers", workers},
          {"fit_error", error_},
          {"most_tokens", most_.tokens},
          {"most_squared_tokens", most_.squared_tokens}};
}

WorkModel WorkModel::from_json(const JsonView& object) {
  WorkModel model;
  model.most_ = {number_in(object.at("most_tokens"), 0, kMostTokens),
                 number_in(object.at("most_squared_tokens"), 0, kMostTokens * kMostTokens)};
  const JsonView coefficients = object.at("coefficients");
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    const JsonView row = coefficients.at(i);
    const auto [cell, is_new] = model.cells_.try_emplace(cell_at(row));
    if (!is_new) row.fail("its stage and kind are those of an earlier row");
    WorkCoefficients& of_cell = cell->second;
    for (const auto& [member, value] : kCoefficientMembers) of_cell.*value = number_in(row.at(member), 0, kMostUnitS);
    const double longest_s = of_cell.time_s(model.most_);
    if (!(longest_s > 0 && longest_s <= kMostUnitS)) {
      row.fail(fmt::format("a unit of the most tokens takes {:.3g} s, which is not above 0 and up to {:g}", longest_s,
                           kMostUnitS));
    }
  }
  const JsonView workers = object.at("workers");
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const JsonView row = workers.at(i);
    const auto [stage, kind] = cell_at(row);
    const double factor = number_in(row.at("factor"), 1 / kMostFactor, kMostFactor);
    model.workers_[{row.at("replica").integer_in(0, kMostWorkers), stage, kind}] = factor;
  }
  model.error_ = number_in(object.at("fit_error"), 0, kMostFactor);
  return model;
}

std::string write_work_file(const WorkModel& model, const profile::StageProfile& profile) {
  Json json = {{"format", kWorkFormat}};
  json.update(model.json());
  for (Json& row : json["coefficients"]) {
    const OpKind kind = op_kind_from_name(row["kind"].get<std::string>()).value();
    row["clock_mhz"] = profile.at_max_clock(row["stage"].get<int>(), kind).clock_mhz;
  }
  return json.dump(1) + '\n';
}

bool is_work_file(std::string_view text) {
  try {
    const Json json = parse_json(text, "the file");
    const auto format = json.find("format");
    return format != json.end() && *format == kWorkFormat;
  } catch (const InputError&) {
    return false;
  }
}

WorkModel read_work_file(std::string_view text, const std::string& source, const profile::StageProfile& profile) {
  const Json json = parse_json(text, source);
  const JsonView view(json, source);
  require_format(view, kWorkFormat);
  const WorkModel model = WorkModel::from_json(view);
  const JsonView coefficients = view.at("coefficients");
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    const JsonView row = coefficients.at(i);
    const auto [stage, kind] = cell_at(row);
    const JsonView clock = row.at("clock_mhz");
    const std::vector<profile::StageOp> ops = profile.ops();
    const auto op = std::ranges::find_if(ops, [&](const auto& of) { return of.stage == stage && of.kind == kind; });
    const int highest_mhz = op == ops.end() ? 0 : op->measurements.front().clock_mhz;
    if (clock.integer() != highest_mhz) {
      clock.fail(fmt::format("the highest clock of the profile is {} MHz there", highest_mhz),
                 "give the profile that lowgear profile wrote with this file");
    }
  }
  return model;
}

namespace {

/// Of the lower and the upper median the one nearest to 0: of two halves, the one that differs from the other replicas
/// stands out.
double nearest_to_none(std::span<double> values) {
  const double upper = upper_median(values);
  if (values.size() % 2 == 1) return upper;
  const double lower = 2 * median(values) - upper;
  return std::abs(lower) < std::abs(upper) ? lower : upper;
}

/// Workers that stand out: of the logarithms of mean times by replica and (stage, kind), what is left when the medians
/// of rows and columns are taken away in turns.
std::map<WorkModel::Worker, double> outstanding_workers(std::span<const RecordedUnit> units) {
  constexpr int kRounds = 10;
  constexpr double kOutstanding = 0.05;
  std::map<WorkModel::Worker, std::pair<double, double>> sums;
  for (const RecordedUnit& unit : units) {
    auto& [time_s, count] = sums[{unit.replica, unit.stage, unit.kind}];
    time_s += unit.time_s;
    ++count;
  }
  std::map<WorkModel::Worker, double> logs;
  for (const auto& [worker, sum] : sums) logs[worker] = std::log(sum.first / sum.second);
  const auto take = [&](auto key_of, auto middle_of) {
    std::map<decltype(key_of(logs.begin()->first)), std::vector<double>> groups;
    for (const auto& [worker, value] : logs) groups[key_of(worker)].push_back(value);
    std::map<decltype(key_of(logs.begin()->first)), double> medians;
    for (auto& [key, values] : groups) medians[key] = middle_of(std::span(values));
    for (auto& [worker, value] : logs) value -= medians.at(key_of(worker));
  };
  for (int round = 0; round < kRounds; ++round) {
    take([](const WorkModel::Worker& w) { return WorkModel::Cell(std::get<1>(w), std::get<2>(w)); },
         [](std::span<double> values) { return median(values); });
    take([](const WorkModel::Worker& w) { return std::get<0>(w); }, nearest_to_none);
  }
  std::map<WorkModel::Worker, double> factors;
  for (const auto& [worker, value] : logs) {
    if (std::abs(value) > kOutstanding) factors[worker] = std::exp(value);
  }
  return factors;
}

}  // namespace

InferredAmounts infer_amounts(std::span<const MicrobatchTimes> microbatches) {
  std::vector<RecordedUnit> units;
  for (const MicrobatchTimes& microbatch : microbatches) {
    if (!microbatch.fits) continue;
    double forwards_s = 0;
    for (const RecordedUnit& unit : microbatch.units) {
      if (unit.kind == OpKind::forward) forwards_s += unit.time_s;
    }
    for (RecordedUnit unit : microbatch.units) {
      unit.amounts = {1, forwards_s};  // to begin with: a constant, and something that grows with the length
      units.push_back(unit);
    }
  }
  const std::map<WorkModel::Worker, double> workers = outstanding_workers(units);
  const auto fit = [&] { return WorkModel::fit_with_workers(units, workers, WorkModel::Constant::zero); };
  InferredAmounts inferred{fit(), {}};
  for (int round = 0; round < kAmountRounds; ++round) {
    std::size_t next = 0;
    for (const MicrobatchTimes& microbatch : microbatches) {
      if (!microbatch.fits) continue;
      const Amounts amounts = sums_of(inferred.model, microbatch).solve();
      for (std::size_t i = 0; i < microbatch.units.size(); ++i) units[next++].amounts = amounts;
    }
    inferred.model = fit();
  }
  for (const MicrobatchTimes& microbatch : microbatches) {
    std::vector<Amounts>& amounts = inferred.amounts.emplace_back();
    const AmountSums all = sums_of(inferred.model, microbatch);
    for (const RecordedUnit& unit : microbatch.units) {
      AmountSums others = all;
      const auto [linear, attention] = amount_row(inferred.model, unit);
      others.add(linear, attention, -1);
      amounts.push_back(others.solve());
    }
  }
  return inferred;
}

}  // namespace lowgear::steps
