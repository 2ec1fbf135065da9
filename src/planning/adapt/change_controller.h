#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/adapt/freezing/controller.h"
#include "planning/adapt/operating_point_search.h"

namespace lowgear::adapt {

enum class ChangeKind : unsigned char { freezing, slowdown };
[[nodiscard]] std::string_view name(ChangeKind kind);

/// How a job runs.
struct Configuration {
  std::int64_t frozen_blocks = 0;
  int point = 0;  ///< operating point, by index; 0 is full speed

  friend bool operator==(const Configuration&, const Configuration&) = default;
};

/// A model whose first blocks may be frozen.
struct FreezingChange {
  std::int64_t blocks = 0;  ///< of the model
  freezing::Options options;
  bool tried = true;  ///< a block is frozen only if a trial shows that this saves energy; otherwise at once
};

struct ChangeOptions {
  std::vector<std::string> points;         ///< operating points by name, the first at full speed; none: no slowdown
  std::optional<FreezingChange> freezing;  ///< empty: nothing is frozen
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

enum class ChangeAction : unsigned char {
  attempt,  ///< a change is tried: from now on in turns with the last good configuration
  drop,     ///< one of the points that are tried is out
  adopt,    ///< the tried configuration is the last good one from now on
  reject,   ///< the job returns to the last good configuration
  cut_off,  ///< the trial could not end: the job returns to the last good configuration
  undo,     ///< an adopted change does harm and is withdrawn
  wait,     ///< a change is due, and another one is being tried
};
[[nodiscard]] std::string_view name(ChangeAction action);

struct ChangeDecision {
  std::int64_t steps_done = 0;
  ChangeKind kind = ChangeKind::freezing;
  ChangeAction action = ChangeAction::wait;
  Configuration configuration;  ///< of the next iteration
  std::string reason;           ///< one sentence with the numbers

  friend bool operator==(const ChangeDecision&, const ChangeDecision&) = default;
};

/// The memory of a controller, without a trial under way.
struct ChangeState {
  Configuration good;
  bool search_due = true;                   ///< the operating point is not known for the current work
  std::optional<freezing::State> freezing;  ///< empty: as at the start

  friend bool operator==(const ChangeState&, const ChangeState&) = default;
};

/// Decides about the frozen blocks and the operating point of a job that trains: one change at a time.
///
/// - Slowdown: the operating point is searched at the start, and again whenever the number of frozen blocks has changed
///   (OperatingPointSearch). The point that is found is adopted only if the interval of its energy against full speed
///   excludes zero gain. Else the last good one stays, unless the search has shown that it is too slow: then full
///   speed.
/// - Freezing: when freezing::Controller would freeze another block, the job runs with and without that in turns. It is
///   adopted only if the interval of the energy excludes zero gain and a window after that has passed the loss test.
///   Else it is undone, and the next attempt is later.
///
/// A change that is due waits while another one is tried; for unfreezing, which repairs harm, a search is cut off. A
/// trial that cannot end (no energy or time, no held-out loss, a rank that could not switch) ends in the last good
/// configuration, and so does one that a checkpoint interrupts: `state` does not contain it.
///
/// Decisions depend on nothing but the observations: the same in the same order give the same decisions, bit for bit.
class ChangeController {
 public:
  /// Throws InputError when an option is out of range, nothing may change, or the state belongs to another model or
  /// other points.
  explicit ChangeController(ChangeOptions options, const ChangeState& start = {});

  /// Of the next iteration.
  [[nodiscard]] Configuration current() const;
  [[nodiscard]] Configuration last_good() const { return good_; }

  /// An iteration at `current`. Returns the decisions after it, usually none.
  std::vector<ChangeDecision> observe(const IterationSeen& seen);
  /// A window, whose last iteration is observed after it. Throws InputError as freezing::Controller, and when nothing
  /// is frozen. `hold` is ignored.
  std::vector<ChangeDecision> observe(const freezing::Observation& window);

  [[nodiscard]] ChangeState state() const;
  /// The search or trial under way, or else the last one; null: there was none.
  [[nodiscard]] const OperatingPointSearch* search() const { return search_ ? &*search_ : nullptr; }

 private:
  enum class Phase : unsigned char { idle, searching, trying, awaiting_loss };

  [[nodiscard]] ChangeDecision decision(ChangeKind kind, ChangeAction action, std::string reason) const;
  [[nodiscard]] bool tries_freezing() const { return phase_ == Phase::trying || phase_ == Phase::awaiting_loss; }
  [[nodiscard]] bool passes_loss_test(double held_out_loss) const;
  [[nodiscard]] ChangeDecision begin_search();
  [[nodiscard]] ChangeDecision begin_trial(const std::string& reason);
  [[nodiscard]] ChangeDecision end_search(const std::string& found);
  [[nodiscard]] std::string why_none(const std::string& found) const;
  [[nodiscard]] ChangeDecision end_trial(const std::string& found);
  [[nodiscard]] ChangeDecision adopt_freezing(const std::string& reason);
  [[nodiscard]] ChangeDecision reject_freezing(ChangeAction action, const std::string& reason);
  [[nodiscard]] ChangeDecision cut_off(const std::string& reason);
  [[nodiscard]] std::vector<ChangeDecision> unfreeze(const freezing::Decision& decided);
  void work_has_changed();

  ChangeOptions options_;
  std::optional<freezing::Controller> freezing_;
  Configuration good_;
  bool search_due_ = false;
  Phase phase_ = Phase::idle;
  std::optional<OperatingPointSearch> search_;  ///< of points, or of two numbers of frozen blocks
  std::vector<std::string> too_slow_;           ///< why, of each point of this search; empty: it is not
  int missing_ = 0;                             ///< iterations in a row without time or energy
  bool waits_ = false;                          ///< it is known that freezing waits
  std::int64_t steps_done_ = 0;
};

}  // namespace lowgear::adapt
