#include "client/measure/rank_recording.h"

#include <utility>

#include "base/core/error.h"

namespace lowgear::client {

RankRecording::RankRecording(RankRecordingOptions options, RecordingHeader header, std::uint64_t start_ns)
    : folder_(std::move(options.folder)),
      iterations_(options.iterations),
      header_(std::move(header)),
      takes_samples_(iterations_.first == 0),
      part_(std::make_unique<RecordingWriter>(folder_, options.existing, header_, start_ns)) {}

void RankRecording::write(const UnitRecord& record) {
  if (!iterations_.contains(record.iteration)) return;
  const std::lock_guard lock(mutex_);
  if (record.type == RecordType::iteration_begin) {
    if (newest_iteration_ && record.iteration <= *newest_iteration_) begin_part(record.begin_ns);
    newest_iteration_ = record.iteration;
  }
  if (problem_.empty()) part_->write(record);
}

void RankRecording::begin_part(std::uint64_t start_ns) {
  part_->finish(0);
  if (!part_->problem().empty() || !problem_.empty()) return;
  try {
    part_ = std::make_unique<RecordingWriter>(folder_, RecordingFolder::next_part, header_, start_ns);
  } catch (const Error& error) {
    problem_ = error.what();
  }
}

void RankRecording::write(const measure::GpuSample& sample) {
  if (!takes_samples_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  if (problem_.empty()) part_->write(sample);
}

void RankRecording::flush() {
  const std::lock_guard lock(mutex_);
  part_->flush();
}

void RankRecording::finish(std::uint64_t lost_units) {
  const std::lock_guard lock(mutex_);
  part_->finish(lost_units);
}

std::string RankRecording::problem() const {
  const std::lock_guard lock(mutex_);
  return part_->problem().empty() ? problem_ : part_->problem();
}

}  // namespace lowgear::client
