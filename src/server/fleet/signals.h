#pragma once

#include <functional>
#include <string>

#include "base/core/formats/json.h"
#include "server/fleet/named_documents.h"
#include "server/steering/signal_policy.h"

namespace lowgear::server {

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
  void put(const std::string& name, const JsonView& body, Settled settled) {
    signals_.put(name, body, std::move(settled));
  }
  /// Throws HttpError 404 when there is no such signal.
  void remove(const std::string& name, Settled settled);

  [[nodiscard]] bool empty() const { return signals_.values().empty(); }
  /// Of the signal that allows most, as all of them are now.
  [[nodiscard]] Allowance follow(double now_s);
  /// As GET /v1/signals shows them.
  [[nodiscard]] Json to_json() const;

 private:
  NamedDocuments<Signal> signals_;
};

}  // namespace lowgear::server
