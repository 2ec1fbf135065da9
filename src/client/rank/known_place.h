#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "client/rank/job_place.h"

namespace lowgear::client {

/// Where this rank is in the pipeline, as known from the start or by the newest plan. Thread-safe.
class KnownPlace {
 public:
  struct Place {
    std::optional<int> pp_rank;  ///< empty: not certain
    std::optional<int> stage;    ///< the only one of this rank; empty: not certain, or it has several
    std::string text;            ///< how they are known; or why not, and what to pass
  };

  KnownPlace(AxisRank pipeline, std::optional<int> stage) { set(std::move(pipeline), stage); }

  /// `stage` is the only one of this rank; empty: not certain, or it has several.
  void set(AxisRank pipeline, std::optional<int> stage);
  [[nodiscard]] Place get() const;

 private:
  mutable std::mutex mutex_;  ///< of the two below
  AxisRank pipeline_;
  std::optional<int> stage_;
};

}  // namespace lowgear::client
