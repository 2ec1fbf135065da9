#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "client/marks/mark.h"
#include "client/marks/mark_relay.h"
#include "client/marks/stream_driver.h"

namespace lowgear::client {

struct StreamMarksStatus {
  bool follow_stream = false;  ///< marks count when the GPU comes to them; otherwise when they are made
  std::string problem;         ///< why not, although that was asked for, or what was lost; empty: nothing
};

/// Passes marks on as a GPU comes to them, where they are to follow a stream. One thread marks and says which stream;
/// any may ask for the rest.
class StreamMarks {
 public:
  using OpenDriver = std::function<std::unique_ptr<StreamDriver>()>;

  /// `taker` lives longer than this. `open_driver` throws Error.
  StreamMarks(MarkTaker& taker, OpenDriver open_driver) : taker_(&taker), open_driver_(std::move(open_driver)) {}

  /// Marks from now on follow the work of this stream, or the host where that cannot be. Null: the host; waits at most
  /// MarkRelayOptions::last_wait for marks that the GPU has not come to.
  void use(StreamDriver::Stream stream);
  /// False: marks are the host's, and the caller passes them on itself, at once.
  [[nodiscard]] bool defers() const noexcept { return relay_ != nullptr; }
  /// Where marks are deferred.
  void mark(Mark mark) noexcept;
  /// Where marks are deferred: returns once the GPU has come to the newest, as `MarkRelay::wait_for_gpu`.
  void wait_for_gpu() const noexcept {
    if (relay_) relay_->wait_for_gpu();
  }

  [[nodiscard]] StreamMarksStatus status() const;
  /// Marks that were never passed on.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  void use_host();

  MarkTaker* taker_;
  OpenDriver open_driver_;
  mutable std::mutex mutex_;          ///< of what follows, but for the marking thread's looks at `relay_`
  std::unique_ptr<MarkRelay> relay_;  ///< null: marks are the host's
  std::string problem_;               ///< why there is none, although a stream was named, or it follows another
  std::uint64_t lost_before_ = 0;     ///< by relays that are gone
};

}  // namespace lowgear::client
