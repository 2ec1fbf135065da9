#pragma once

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "base/core/op_kind.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::steps {

/// What the time of a microbatch's units depends on.
struct Amounts {
  double tokens = 0;
  double squared_tokens = 0;  ///< the squared lengths of its documents, summed

  /// Whether documents can have both: a token at least each, and no larger squares than one long document.
  [[nodiscard]] bool add_up() const {
    return std::isfinite(squared_tokens) && tokens >= 1 && squared_tokens >= tokens &&
           squared_tokens <= tokens * tokens;
  }
  friend bool operator==(const Amounts&, const Amounts&) = default;
};

/// The time of one unit at full clocks, as recorded.
struct RecordedUnit {
  int replica = 0;
  int stage = 0;
  OpKind kind = OpKind::forward;
  Amounts amounts;
  double time_s = 0;
};

/// Time of a unit at full clocks by its amounts of work, on one stage and of one kind. None is negative. Errors are
/// standard errors of the fit; 0 for a coefficient that is 0.
struct WorkCoefficients {
  double constant_s = 0;
  double linear_s = 0;     ///< per token
  double attention_s = 0;  ///< per squared token
  double constant_error_s = 0;
  double linear_error_s = 0;
  double attention_error_s = 0;

  [[nodiscard]] double time_s(const Amounts& amounts) const {
    return constant_s + linear_s * amounts.tokens + attention_s * amounts.squared_tokens;
  }
};

/// Predicts times of units at full clocks: time = worker x (constant + linear x tokens + attention x squared tokens),
/// with three coefficients for each (stage, kind), and a factor for each worker (replica, stage, kind) that is slower
/// or faster than the others by more than three standard errors, else 1.
class WorkModel {
 public:
  using Cell = std::pair<int, OpKind>;          ///< stage, kind
  using Worker = std::tuple<int, int, OpKind>;  ///< replica, stage, kind
  enum class Constant : unsigned char { fitted, zero };

  WorkModel() = default;
  /// Least squares of relative errors, non-negative. Throws InputError when there is no unit, or a time is not above 0.
  [[nodiscard]] static WorkModel fit(std::span<const RecordedUnit> units, Constant constant = Constant::fitted);

  [[nodiscard]] double time_s(int replica, int stage, OpKind kind, const Amounts& amounts) const;
  /// Factor of a worker's times.
  [[nodiscard]] double worker(int replica, int stage, OpKind kind) const;
  [[nodiscard]] const std::map<Cell, WorkCoefficients>& cells() const { return cells_; }
  /// Workers whose factor is not 1.
  [[nodiscard]] const std::map<Worker, double>& workers() const { return workers_; }
  /// Largest amounts that were fitted: a prediction beyond them is none.
  [[nodiscard]] const Amounts& most() const { return most_; }
  /// Root mean square of the relative errors of the fitted units.
  [[nodiscard]] double error() const { return error_; }

  /// Why times of microbatches cannot be predicted: amounts beyond those of the fit; empty: they can. By replica, then
  /// microbatch, of which there are `microbatches`.
  [[nodiscard]] std::string beyond_fit(std::span<const Amounts> amounts, int microbatches) const;

  /// As members of a JSON object: `coefficients`, `workers`, `fit_error`, `most_tokens`, `most_squared_tokens`.
  [[nodiscard]] Json json() const;
  /// Reads them; throws InputError with the JSON path, also where a unit of the largest amounts would take no time.
  [[nodiscard]] static WorkModel from_json(const JsonView& object);

  /// The same for workers whose factors are known.
  [[nodiscard]] static WorkModel fit_with_workers(std::span<const RecordedUnit> units, std::map<Worker, double> workers,
                                                  Constant constant);

 private:
  void set_errors(std::span<const RecordedUnit> units);
  void fit_cells(std::span<const RecordedUnit> units, Constant constant);
  void fit_workers(std::span<const RecordedUnit> units);

  std::map<Cell, WorkCoefficients> cells_;
  std::map<Worker, double> workers_;
  Amounts most_;
  double error_ = 0;
};

/// A fit with a larger `WorkModel::error` deserves a warning.
inline constexpr double kLargeFitError = 0.1;

/// File of a recording with the lengths of its microbatches (docs/formats.md), which the trainer writes.
inline constexpr const char* kLengthsFile = "lengths.csv";
/// Where `lowgear profile` writes times by length and a job looks for them: next to the profile.
[[nodiscard]] inline std::string work_file_of(const std::string& profile) { return profile + ".work.json"; }
/// The file next to a profile (`lowgear.work/1`, docs/formats.md) that `lowgear profile` writes: a model with the
/// highest clocks of that profile, at which its times are.
[[nodiscard]] std::string write_work_file(const WorkModel& model, const profile::StageProfile& profile);
/// Whether a text names that format: a file that `lowgear profile` may replace.
[[nodiscard]] bool is_work_file(std::string_view text);
/// Of the same profile. Throws InputError, also when the profile has another highest clock.
[[nodiscard]] WorkModel read_work_file(std::string_view text, const std::string& source,
                                       const profile::StageProfile& profile);

/// Times of one microbatch's units on every stage, of which the amounts are not known.
struct MicrobatchTimes {
  int replica = 0;
  std::vector<RecordedUnit> units;  ///< amounts are not looked at
  bool fits = false;                ///< whether the model may be fitted on it
};

/// Units whose amounts nobody stated, with amounts that explain the times of the *other* units of their microbatch: a
/// prediction from them has not seen the unit's own time. Coefficients and amounts are found in turns (a factorisation
/// of rank two, non-negative) on the microbatches that `fits`. Amounts are in units of the factorisation's own. A
/// worker has a factor where its mean time is more than a twentieth off what its replica's other units and the others'
/// same units suggest (median polish). Needs two units of each microbatch at least. `amounts` are by microbatch and
/// unit.
struct InferredAmounts {
  WorkModel model;
  std::vector<std::vector<Amounts>> amounts;
};
[[nodiscard]] InferredAmounts infer_amounts(std::span<const MicrobatchTimes> microbatches);

}  // namespace lowgear::steps
