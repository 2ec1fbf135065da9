#include "client/measure/rank_recording.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/monotonic_clock.h"

namespace lowgear::client {

namespace {

template <typename Value>
std::string cell(const std::optional<Value>& value) {
  return value ? fmt::format("{}", *value) : "";
}

constexpr int kMaxParts = 100'000;

/// Wall-clock time of a monotonic time.
double unix_time_s(std::uint64_t monotonic_time_ns) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count() - (monotonic_s() - static_cast<double>(monotonic_time_ns) * 1e-9);
}

/// Makes the folder of a rank's recording.
std::filesystem::path make_rank_folder(const std::filesystem::path& folder, RecordingFolder existing, int rank) {
  std::error_code error;
  const int parts = existing == RecordingFolder::next_part ? kMaxParts : 1;
  for (int part = 0; part < parts && !error; ++part) {
    const std::filesystem::path parent = part == 0 ? folder : folder / fmt::format("part-{:05}", part);
    std::filesystem::path of_rank = parent / fmt::format("rank-{:05}", rank);
    std::filesystem::create_directories(parent, error);
    if (!error && std::filesystem::create_directory(of_rank, error)) return of_rank;
  }
  throw InputError(fmt::format("{}: {}; record into a new folder",
                               printable((folder / fmt::format("rank-{:05}", rank)).string()),
                               error ? error.message() : "there is a recording already"));
}

}  // namespace

RecordingWriter::RecordingWriter(const std::filesystem::path& folder, RecordingFolder existing, RecordingHeader header,
                                 std::uint64_t start_ns, std::uint64_t max_file_bytes)
    : folder_(make_rank_folder(folder, existing, header.rank)),
      header_(std::move(header)),
      start_ns_(start_ns),
      start_unix_s_(unix_time_s(start_ns)),
      max_file_bytes_(max_file_bytes) {
  try {
    open(units_, "units.csv", "iteration,stage,instruction,microbatch,start_s,end_s,frequency,settling\n");
    open(iterations_table_, "iterations.csv", "iteration,start_s,end_s\n");
    open(energy_, "energy.csv", "time_s,energy_j,power_w,sm_mhz,temperature_c,throttle_reasons\n");
    write_header(0);
  } catch (const Error&) {
    std::error_code ignored;  // nothing is recorded: the next start may have the name
    std::filesystem::remove_all(folder_, ignored);
    throw;
  }
}

void RecordingWriter::open(Table& table, const char* name, const char* header) {
  table.path = folder_ / name;
  table.stream.open(table.path);
  table.stream << header << std::flush;
  if (!table.stream) {
    throw InputError(fmt::format("{}: cannot be written: {}", printable(table.path.string()),
                                 std::generic_category().message(errno)));
  }
  table.whole_bytes = static_cast<std::uint64_t>(table.stream.tellp());
}

double RecordingWriter::since_start_s(std::uint64_t time_ns) const {
  return static_cast<double>(static_cast<std::int64_t>(time_ns - start_ns_)) * 1e-9;
}

void RecordingWriter::write(const UnitRecord& record) {
  if (!problem_.empty()) return;
  const double begin_s = since_start_s(record.begin_ns);
  const double end_s = since_start_s(record.end_ns);
  if (record.type == RecordType::iteration_begin) return;
  if (record.type == RecordType::iteration_end) {
    iterations_table_.stream << fmt::format("{},{:.9f},{:.9f}\n", record.iteration, begin_s, end_s);
    ++iterations_;
  } else {
    units_.stream << fmt::format("{},{},{},{},{:.9f},{:.9f},{},{}\n", record.iteration, record.stage, name(record.kind),
                                 record.microbatch, begin_s, end_s, record.clock_mhz, record.settling ? 1 : 0);
  }
}

void RecordingWriter::write(const measure::GpuSample& sample) {
  if (!problem_.empty()) return;
  const double start_s = static_cast<double>(start_ns_) * 1e-9;
  if (sample.energy_time_s() < start_s) return;  // it belongs to the part before
  energy_.stream << fmt::format("{:.6f},{},{},{},{},{}\n", sample.energy_time_s() - start_s,
                                sample.energy_j ? fmt::format("{:.3f}", *sample.energy_j) : "", cell(sample.power_w),
                                cell(sample.sm_clock_mhz), cell(sample.temperature_c),
                                sample.throttle_reasons ? fmt::format("{}", sample.throttle_reasons->bits) : "");
}

void RecordingWriter::flush() {
  if (told_invalid_ != header_.invalid) try_write_header(0);
  for (Table* table : {&units_, &iterations_table_, &energy_}) {
    if (!problem_.empty()) return;
    table->stream.flush();
    if (const std::string problem = end_of(*table); !problem.empty()) return end(problem);
    table->whole_bytes = static_cast<std::uint64_t>(table->stream.tellp());
    if (table == &iterations_table_) whole_iterations_ = iterations_;
  }
}

std::string RecordingWriter::end_of(Table& table) const {
  const std::streamoff bytes = table.stream.tellp();
  if (!table.stream || bytes < 0) return "it cannot be written to (a full disk?)";
  if (static_cast<std::uint64_t>(bytes) <= max_file_bytes_) return "";
  return fmt::format("{} is as long as can be read, {} bytes; record fewer iterations", table.path.filename().string(),
                     max_file_bytes_);
}

/// Cuts off what was written in part, which a reader could not tell from a damaged file once more follows.
void RecordingWriter::end(std::string_view problem) {
  iterations_ = whole_iterations_;
  problem_ =
      fmt::format("{}: the recording ends after {} iterations: {}", printable(folder_.string()), iterations_, problem);
  for (Table* table : {&units_, &iterations_table_, &energy_}) {
    table->stream.close();
    std::error_code ignored;  // readers leave out a last line without an end
    std::filesystem::resize_file(table->path, table->whole_bytes, ignored);
  }
}

void RecordingWriter::set_clock_lead(double lead_s) {
  if (header_.clock_lead_s == lead_s) return;
  header_.clock_lead_s = lead_s;
  try_write_header(0);
}

void RecordingWriter::finish(std::uint64_t lost_units) {
  flush();
  has_ended_ = true;
  try_write_header(lost_units);
}

void RecordingWriter::try_write_header(std::uint64_t lost_units) {
  try {
    write_header(lost_units);
  } catch (const Error& error) {
    if (problem_.empty()) end(error.what());
  }
}

void RecordingWriter::write_header(std::uint64_t lost_units) {
  told_invalid_ = header_.invalid;
  Json json = {{"format", "lowgear.recording/1"},
               {"rank", header_.rank},
               {"world_size", header_.world_size},
               {"job", header_.job},
               {"gpu", {{"uuid", header_.gpu_uuid}, {"name", header_.gpu_name}}},
               {"simulated", header_.simulated},
               {"driver_version", header_.driver_version},
               {"start_unix_s", start_unix_s_},
               {"start_monotonic_s", static_cast<double>(start_ns_) * 1e-9},
               {"boot_id", boot_id()},
               {"iterations", iterations_},
               {"lost_units", lost_units},
               {"ended", has_ended_}};
  if (!header_.invalid.empty()) json["invalid"] = header_.invalid;
  if (!header_.failure.empty()) json["failure"] = header_.failure;
  if (header_.clock_lead_s > 0) json["clock_lead_s"] = header_.clock_lead_s;
  write_file_atomically(folder_ / "recording.json", json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

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
    problem_ = fmt::format("the recording ends, as no further part of it can be made: {}", error.what());
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

void RankRecording::set_invalid(const std::string& why) {
  const std::lock_guard lock(mutex_);
  header_.invalid = why;
  part_->set_invalid(why);
}

void RankRecording::set_clock_lead(double lead_s) {
  const std::lock_guard lock(mutex_);
  header_.clock_lead_s = lead_s;
  part_->set_clock_lead(lead_s);
}

void RankRecording::finish(std::uint64_t lost_units, const std::string& failure) {
  const std::lock_guard lock(mutex_);
  part_->set_failure(failure);
  part_->finish(lost_units);
}

std::string RankRecording::problem() const {
  const std::lock_guard lock(mutex_);
  return part_->problem().empty() ? problem_ : part_->problem();
}

}  // namespace lowgear::client
