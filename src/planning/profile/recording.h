#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/op_kind.h"

namespace lowgear::profile {

/// Bounds on the size of a recording. Its files are bounded by kMaxFileBytes: some 18 million units, and samples of
/// ten days.
inline constexpr int kMaxRanks = 1 << 20;
inline constexpr int kMaxIteration = 1'000'000'000;
/// Shortest unit whose time and energy can be measured: marks on a stream are looked for every 50 us.
inline constexpr double kShortestUnitS = 1e-4;
/// Longest recording: a year.
inline constexpr double kMaxRecordingS = 3.2e7;

/// One computation of a rank. Times are seconds on the recording's own clock.
struct RecordedUnit {
  int iteration = 0;
  int stage = 0;
  OpKind kind = OpKind::forward;
  int microbatch = 0;
  double start_s = 0;
  double end_s = 0;
  int clock_mhz = 0;      ///< SM clock that was asked for; 0 when none was
  bool settling = false;  ///< of an iteration in which clocks settled: tells nothing of any clock
  double work = 1;        ///< divisor of its time in a profile: lengths of sequences differ
};

/// An iteration of a rank: its units, waiting, and the optimizer's step. Times as in RecordedUnit.
struct RecordedIteration {
  int number = 0;
  double start_s = 0;
  double end_s = 0;
};

/// Origin of a recording's clock: recordings of one machine can be put on one time axis.
struct RecordingClock {
  std::string boot_id;  ///< of the machine
  double start_s = 0;   ///< of the recording, on that machine's monotonic clock
};

/// What the activations of one microbatch take on a stage: bytes that the allocator of the rank's device held from
/// their forward on until their backward.
struct RecordedActivations {
  int iteration = 0;  ///< in which it was measured
  int stage = 0;
  std::int64_t bytes = 0;  ///< above 0

  friend bool operator==(const RecordedActivations&, const RecordedActivations&) = default;
};

/// One reading of the GPU; values that it does not report are empty.
struct EnergySample {
  double time_s = 0;
  std::optional<double> energy_j;  ///< counter: only differences mean something
  std::optional<double> power_w;
  std::optional<int> sm_mhz;
  std::optional<int> temperature_c;
  std::optional<std::uint64_t> throttle_reasons;  ///< NVML's bits (nvmlClocksEventReasons)
};

/// Of a recording, on its own clock.
struct TimeSpan {
  double begin_s = 0;
  double end_s = 0;
};

/// When a new value of the counter was seen.
enum class CounterSampling {
  periodic,  ///< at the first reading after it changed: some time between that and the reading before
  on_change  ///< at once, by a process that reads without pause
};

/// The recording of one rank (`lowgear.recording/1`): the members of its header, and units and samples in the order of
/// their times.
struct Recording {
  std::string source;  ///< name for messages
  int rank = 0;
  int world_size = 1;
  std::string job;  ///< as its launcher names it; may be empty
  std::string gpu_uuid;
  std::string gpu_name;
  std::optional<double> power_limit_w = {};  ///< of the GPU model, where it is known
  bool simulated = false;
  std::string invalid = {};  ///< why its recorder says that times and energies mean nothing; empty: they do
  double clock_lead_s = 0;   ///< longest time before its unit that a clock was requested
  long long lost_units = 0;  ///< units that the recorder had no room for
  int part = 0;              ///< a job that was resumed recorded several, each a stretch of its own
  CounterSampling sampling = CounterSampling::periodic;
  std::optional<RecordingClock> clock;
  std::optional<double> start_unix_s;         ///< when it began, in seconds since 1970
  std::vector<RecordedIteration> iterations;  ///< empty when they were not recorded, or not read
  std::vector<RecordedUnit> units;
  std::vector<EnergySample> samples;
  /// Its energies are integrated power readings, as its counter cannot be right (`settle_energy`).
  bool energy_from_power = false;
  /// Share by which all its energies may be off at once (`settle_energy`).
  double energy_error_share = 0;
  /// Times whose energies are not known (`settle_energy`), one after the other.
  std::vector<TimeSpan> set_aside;
  /// Why its energies were not, or only in part, compared with power readings; empty: they were.
  std::string uncompared;
  /// Offset added to the times of its samples, where they are on another clock than its units (`find_energy_shift_s`).
  double energy_shift_s = 0;
  /// Length of the time over which each power reading is a mean; for `energy_windows` of such a recording.
  double power_mean_s = 0;
  std::vector<RecordedActivations> activations;  ///< empty when they were not measured, or not read
  std::vector<std::string> warnings;             ///< omitted parts of its files, one line each

  /// Whether the energy of this time is not known.
  [[nodiscard]] bool is_set_aside(double begin_s, double end_s) const;
};

/// The files of one rank's folder `rank-NNNNN`, as text.
struct RecordingText {
  std::string folder;                    ///< name for messages
  std::string_view recording_json;       ///< format `lowgear.recording/1`
  std::string_view units_csv;            ///< iteration,stage,instruction,microbatch,start_s,end_s,frequency,settling
  std::string_view energy_csv;           ///< time_s,energy_j,power_w,sm_mhz,temperature_c,throttle_reasons
  std::string_view iterations_csv = {};  ///< iteration,start_s,end_s; empty: not known
};

/// Reads a recording of the client library. Rows of units that are no computation (`load`, `p2p`, ...) are skipped. A
/// last line that was cut off (a full disk) is left out with a warning.
/// Throws InputError with file, line and column on another format, numbers out of range, a unit that ends before it
/// starts or samples whose times do not rise or whose counter falls.
[[nodiscard]] Recording read_recording(const RecordingText& text);

/// The number in a name such as `instructions-12.csv`, given what stands before and after it; empty when it is no such
/// name. Files are ordered by it: as text, 10 comes before 2.
[[nodiscard]] std::optional<int> rank_in_name(std::string_view name, std::string_view before, std::string_view after);

}  // namespace lowgear::profile
