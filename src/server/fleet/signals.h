#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "server/fleet/store_writes.h"

namespace lowgear::server {

/// A value from a time on, until the next point: carbon intensity (g/kWh) or a price (any unit).
struct SignalPoint {
  double time_s = 0;  ///< on any clock; the same that `SignalPolicy::at` is asked with
  double value = 0;
};

/// From which value on the job may be slowed down, and how far.
struct SignalThreshold {
  double at_least = 0;
  double slowdown_pct = 0;
};

/// The slowdown that a signal allows at a time.
struct SignalState {
  double slowdown_pct = 0;
  std::optional<double> value;  ///< none before the first point and when the last has expired
};

/// Most points of a signal: a year at one-minute steps.
inline constexpr std::size_t kMaxSignalPoints = 527'040;
inline constexpr std::size_t kMaxSignalThresholds = 1000;
/// Largest slowdown that a signal may allow.
inline constexpr double kMaxSignalSlowdownPct = 1000;

/// How much slower than its fastest plan a job may run while energy is dirty or dear. Below the lowest threshold, and
/// when nothing is known (before the first point, and `hold_last_s` after the last), it may not be slowed at all.
class SignalPolicy {
 public:
  /// `name`, for messages: `carbon`, `price`. Throws InputError naming the place in the list when there are no points
  /// or too many, times do not rise strictly, a number is not finite, there are no thresholds or too many, they do not
  /// rise strictly in value, or a slowdown is not in [0, kMaxSignalSlowdownPct]. A higher threshold may allow less.
  SignalPolicy(std::string_view name, std::vector<SignalPoint> points, std::vector<SignalThreshold> thresholds,
               double hold_last_s = 3600);

  [[nodiscard]] SignalState at(double time_s) const;

 private:
  [[nodiscard]] double slowdown_pct(double value) const;

  std::vector<SignalPoint> points_;
  std::vector<SignalThreshold> thresholds_;
  double end_s_ = 0;
};

/// A time series that allows jobs to be slower while it is high.
struct Signal {
  std::string document;  ///< as it was put
  SignalPolicy policy;
  SignalState state;
};

/// Throws InputError. `body` is the document.
[[nodiscard]] Signal read_signal(const std::string& name, const JsonView& body);

/// All signals, by name. One that is put or removed counts once that is on disk.
class Signals {
 public:
  /// How much slower jobs may be at present, and why.
  struct Allowance {
    double slowdown_pct = 0;
    std::string why;
  };

  /// `store` outlives it. `changed` is called once other signals count.
  Signals(WatchedStore& store, std::function<void()> changed);

  /// Takes a row of the store, or returns false when it is none of a signal. Throws InputError.
  bool restore(const StoredDocument& row) { return signals_.restore(row); }
  /// Throws InputError.
  void put(const std::string& name, const JsonView& body, OnCommitted on_committed) {
    signals_.put(name, body, std::move(on_committed));
  }
  /// Throws Refused where there is no such signal.
  void remove(const std::string& name, OnCommitted on_committed);

  [[nodiscard]] bool empty() const { return signals_.values().empty(); }
  /// Of the signal that allows most, as all of them are now.
  [[nodiscard]] Allowance follow(double now_s);
  /// As GET /v1/signals shows them.
  [[nodiscard]] Json to_json() const;

 private:
  NamedDocuments<Signal> signals_;
};

}  // namespace lowgear::server
