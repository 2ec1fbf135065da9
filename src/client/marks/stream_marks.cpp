#include "client/marks/stream_marks.h"

#include <utility>

#include "base/core/error.h"

namespace lowgear::client {

void StreamMarks::use(StreamDriver::Stream stream) {
  if (stream == nullptr) return use_host();
  if (!relay_) {
    const std::lock_guard lock(mutex_);
    if (!problem_.empty()) return;  // it was tried, and the host was not asked for since
    try {
      relay_ = std::make_unique<MarkRelay>(open_driver_(), *taker_);
    } catch (const std::exception& error) {
      problem_ = std::string("marks are the host's: ") + error.what();
      return;
    }
  }
  if (relay_->use(stream)) return;
  const std::lock_guard lock(mutex_);
  problem_ = "marks follow another stream: too many have been named";
}

void StreamMarks::mark(Mark mark) noexcept { relay_->mark(mark); }

void StreamMarks::use_host() {
  std::unique_ptr<MarkRelay> ended;
  {
    const std::lock_guard lock(mutex_);
    problem_.clear();
    ended = std::move(relay_);
  }
  if (!ended) return;
  ended->finish();
  const std::lock_guard lock(mutex_);
  lost_before_ += ended->lost();
}

StreamMarksStatus StreamMarks::status() const {
  const std::lock_guard lock(mutex_);
  StreamMarksStatus status{.follow_stream = relay_ && relay_->works(), .problem = problem_};
  if (relay_ && status.problem.empty()) status.problem = relay_->problem();
  return status;
}

std::uint64_t StreamMarks::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_before_ + (relay_ ? relay_->lost() : 0);
}

}  // namespace lowgear::client
