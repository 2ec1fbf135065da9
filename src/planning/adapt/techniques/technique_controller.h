#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/adapt/freezing/controller.h"
#include "planning/adapt/operating_point_search.h"

namespace lowgear::adapt {

enum class Technique : unsigned char { freezing, slowdown };
[[nodiscard]] std::string_view name(Technique technique);

/// How a job runs.
struct Configuration {
  std::int64_t frozen_blocks = 0;
  int point = 0;  ///< operating point, by index; 0 is full speed

  friend bool operator==(const Configuration&, const Configuration&) = default;
};

/// A model whose first blocks may be frozen.
struct FreezingTechnique {
  std::int64_t blocks = 0;  ///< of the model
  freezing::Options options;
};

struct TechniqueOptions {
  std::vector<std::string> points;            ///< operating points by name, the first at full speed; none: no slowdown
  std::optional<FreezingTechnique> freezing;  ///< empty: nothing is frozen
  /// Of the operating point. A block that is to be frozen is tried in such blocks of time, too, at an allowed slowdown
  /// of 0.
  SearchOptions search;
};

/// An iteration of the whole job. Figures that were not measured are NaN.
struct IterationSeen {
  std::int64_t steps_done = 0;  ///< with it
  double time_s = 0;
  double energy_j = 0;
  bool counted = true;   ///< it did nothing but train
  bool switched = true;  ///< all ranks had the configuration that was decided
};

enum class TechniqueChange : unsigned char {
  attempt,  ///< a change is tried: from now on in turns with the last good configuration
  drop,     ///< one of the points that are tried is out
  adopt,    ///< the trial becomes the last good configuration
  reject,   ///< it is not: back to the last good one
  cut_off,  ///< it could not be tried to its end: back to the last good one
  undo,     ///< an earlier adoption does harm
  wait,     ///< a technique would change something, and another one is at it
};
[[nodiscard]] std::string_view name(TechniqueChange change);

struct TechniqueDecision {
  std::int64_t steps_done = 0;
  Technique technique = Technique::freezing;
  TechniqueChange change = TechniqueChange::wait;
  Configuration configuration;  ///< of the next iteration
  std::string reason;           ///< one sentence with the numbers

  friend bool operator==(const TechniqueDecision&, const TechniqueDecision&) = default;
};

/// State of a controller, without its current trial.
struct TechniqueState {
  Configuration good;
  bool search_due = true;                   ///< the operating point is not known for the work as it is
  std::optional<freezing::State> freezing;  ///< empty: as at the start

  friend bool operator==(const TechniqueState&, const TechniqueState&) = default;
};

/// One slow loop over everything about a job that may change while it trains: one change at a time.
///
/// - Slowdown: the operating point is searched at the start, and again whenever the number of frozen blocks has changed
///   (OperatingPointSearch). The point that is found is adopted only if the interval of its energy against full speed
///   excludes zero gain. Else the last good one stays, unless the search has shown that it is too slow: then full
///   speed.
/// - Freezing: when freezing::Controller would freeze another block, the job runs with and without that in turns. It is
///   adopted only if the interval of the energy excludes zero gain and a window after that has passed the loss test.
///   Else it is undone, and the next attempt is later.
///
/// A technique that would change something waits while another one is tried; for unfreezing, which repairs harm, a
/// search is cut off. What cannot be tried to its end (no energy or time, no held-out loss, a rank that could not
/// switch) ends in the last good configuration. So does what a checkpoint interrupts: `state` does not contain it.
///
/// Decisions depend on nothing but the observations: the same in the same order give the same decisions, bit for bit.
class TechniqueController {
 public:
  /// Throws InputError when an option is out of range, there is no technique, or the state is not of this model or
  /// these points.
  explicit TechniqueController(TechniqueOptions options, const TechniqueState& start = {});

  /// Of the next iteration.
  [[nodiscard]] Configuration current() const;
  [[nodiscard]] Configuration last_good() const { return good_; }

  /// An iteration at `current`. Returns what was decided after it, usually nothing.
  std::vector<TechniqueDecision> observe(const IterationSeen& seen);
  /// A window, whose last iteration is observed after it. Throws InputError as freezing::Controller, and when nothing
  /// is frozen. `hold` is ignored.
  std::vector<TechniqueDecision> observe(const freezing::Observation& window);

  [[nodiscard]] TechniqueState state() const;
  /// The search or trial under way, or else the last one; null: there was none.
  [[nodiscard]] const OperatingPointSearch* search() const { return search_ ? &*search_ : nullptr; }

 private:
  enum class Phase : unsigned char { idle, searching, trying, awaiting_loss };

  [[nodiscard]] TechniqueDecision decision(Technique technique, TechniqueChange change, std::string reason) const;
  [[nodiscard]] bool tries_freezing() const { return phase_ == Phase::trying || phase_ == Phase::awaiting_loss; }
  [[nodiscard]] bool passes_loss_test(double held_out_loss) const;
  [[nodiscard]] TechniqueDecision begin_search();
  [[nodiscard]] TechniqueDecision begin_trial(const std::string& reason);
  [[nodiscard]] TechniqueDecision end_search(const std::string& found);
  [[nodiscard]] TechniqueDecision end_trial(const std::string& found);
  [[nodiscard]] TechniqueDecision adopt_freezing(const std::string& reason);
  [[nodiscard]] TechniqueDecision reject_freezing(TechniqueChange change, const std::string& reason);
  [[nodiscard]] TechniqueDecision cut_off(const std::string& reason);
  [[nodiscard]] std::vector<TechniqueDecision> unfreeze(const freezing::Decision& decided);
  void work_has_changed();

  TechniqueOptions options_;
  std::optional<freezing::Controller> freezing_;
  Configuration good_;
  bool search_due_ = false;
  Phase phase_ = Phase::idle;
  std::optional<OperatingPointSearch> search_;  ///< of points, or of two numbers of frozen blocks
  std::vector<bool> too_slow_;                  ///< points of this search
  int missing_ = 0;                             ///< iterations in a row without time or energy
  bool waits_ = false;                          ///< it is known that freezing waits
  std::int64_t steps_done_ = 0;
};

/// An observation after an iteration, and the decision on it.
struct TechniqueStep {
  std::optional<freezing::Observation> window;  ///< that ended with it; observed before the iteration
  IterationSeen iteration;
  std::vector<TechniqueDecision> decisions;
};

/// A controller's life, from its start or from a state on.
struct TechniqueRecord {
  TechniqueOptions options;
  TechniqueState start;
  std::vector<TechniqueStep> steps;
};

/// The record as lines of JSON (docs/formats.md): the first is by `write_technique_header`, each other one by
/// `write_technique_line`, without their ends. Numbers are written so that they are read back bit for bit; NaN and
/// infinity as null. Each has the last step before it as `step`.
[[nodiscard]] std::string write_technique_header(const TechniqueOptions& options, const TechniqueState& start,
                                                 std::int64_t steps_done);
[[nodiscard]] std::string write_technique_line(const TechniqueStep& step);
/// Throws InputError with file, line and JSON path on anything else. A header in the middle begins another record: a
/// run that was continued.
[[nodiscard]] std::vector<TechniqueRecord> read_technique_records(std::string_view text, const std::string& source);

/// The decisions of a controller on the record's observations, step by step.
[[nodiscard]] std::vector<std::vector<TechniqueDecision>> replay(const TechniqueRecord& record);

/// For lines of metrics: without the number of steps.
[[nodiscard]] Json decision_json(const TechniqueDecision& decision);

/// A state as JSON, for checkpoints.
[[nodiscard]] Json technique_state_json(const TechniqueState& state);
/// Throws InputError with the JSON path.
[[nodiscard]] TechniqueState technique_state_of(const JsonView& map);

}  // namespace lowgear::adapt
