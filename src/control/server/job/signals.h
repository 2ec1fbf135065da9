#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/core/formats/json.h"
#include "planning/adapt/signal_policy.h"

namespace lowgear::server {

/// A time series that allows jobs to be slower while it is high.
struct Signal {
  std::string document;  ///< as it was put
  adapt::SignalPolicy policy;
  adapt::SignalState state;
};

/// Throws InputError. `body` is the document.
[[nodiscard]] Signal read_signal(const std::string& name, const JsonView& body);

/// All signals, by name.
class Signals {
 public:
  /// How much slower jobs may be at present, and why.
  struct Allowance {
    double slowdown_pct = 0;
    std::string why;
  };

  void put(const std::string& name, Signal signal) { signals_.insert_or_assign(name, std::move(signal)); }
  void remove(const std::string& name) { signals_.erase(name); }
  [[nodiscard]] bool has(const std::string& name) const { return signals_.contains(name); }
  [[nodiscard]] bool empty() const { return signals_.empty(); }
  /// Of the signal that allows most, as all of them are now.
  [[nodiscard]] Allowance follow(double now_s);
  /// As GET /v1/signals shows them.
  [[nodiscard]] Json to_json() const;

 private:
  std::map<std::string, Signal> signals_;
};

}  // namespace lowgear::server
