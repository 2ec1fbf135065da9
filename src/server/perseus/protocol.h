#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"

/// The HTTP protocol between a training job and the server of Perseus (SOSP'24 artifact, port 7787) and of Zeus'
/// pipeline frequency optimizer, which grew out of it, as data. Both ignore unknown members; known
/// members have to be valid. Every reader throws InputError with the JSON path.
namespace lowgear::server::perseus {

/// The instructions of a rank's schedule.
enum class Instruction : unsigned char { load, forward, backward, p2p, cc, step, low, high, other, pure_backward };

/// The name on the wire: `load`, `forward`, ...
[[nodiscard]] std::string_view name(Instruction instruction);
[[nodiscard]] std::optional<Instruction> perseus_instruction_from_name(std::string_view text);
/// Those for which plans have a clock of their own; what lies between runs at the clock of the computation before it.
[[nodiscard]] constexpr bool is_computation(Instruction instruction) {
  return instruction == Instruction::forward || instruction == Instruction::backward;
}

/// The unit of a power state: MHz of the SM clock, or W of the power limit.
enum class Mode : unsigned char { frequency, power_limit };

/// `frequency`, `power limit`.
[[nodiscard]] std::string_view name(Mode mode);

/// Bounds on the memory of one request.
inline constexpr int kMaxPerseusWorldSize = 1 << 16;
inline constexpr std::size_t kMaxPowerStates = 4096;
inline constexpr std::size_t kMaxPipeSchedule = std::size_t{1} << 16;
/// Instructions of all ranks of a job together.
inline constexpr std::size_t kMaxJobInstructions = std::size_t{1} << 24;
inline constexpr std::size_t kMaxWindowIterations = 10'000;
/// Most values in one body: results of a long window.
inline constexpr std::size_t kMaxPerseusValues = std::size_t{1} << 21;

/// Which client speaks. The artifact's registers its schedule of instructions and gets power states; Zeus' registers
/// clocks alone, at `/register_rank/{job_id}`, and gets names of instructions with their clocks.
enum class Client : unsigned char { artifact, zeus };

/// Body of `POST /register_job`, which rank 0 sends.
struct JobInfo {
  int pp_degree = 1;
  int dp_degree = 1;
  int tp_degree = 1;
  int world_size = 1;
  // Only the artifact's client says these; the numbers are 0 and the texts empty otherwise.
  std::string framework;
  std::string model_name;
  std::string partition_method;
  int microbatch_size = 0;
  int num_microbatches = 0;
  std::string metadata;  ///< Zeus' `job_metadata`

  friend bool operator==(const JobInfo&, const JobInfo&) = default;
};

/// Body of `POST /register_rank` without its `job_id`.
struct RankInfo {
  int rank = 0;
  int dp_rank = 0;
  int pp_rank = 0;
  int tp_rank = 0;
  std::vector<Instruction> pipe_schedule;  ///< empty from Zeus' client
  std::vector<int> power_states;           ///< unique, highest first; not empty

  friend bool operator==(const RankInfo&, const RankInfo&) = default;
};

struct RankRegistration {
  std::string job_id;  ///< empty from Zeus' client, which has it in the path
  RankInfo rank;
};

/// By iteration of the window, then by instruction of its kind.
using Breakdown = std::map<Instruction, std::vector<std::vector<double>>>;

/// Body of `POST /result/{job_id}`: measurements of a rank in a window of iterations; also an element of `N.prof.json`.
struct Result {
  int rank = 0;
  std::vector<double> iteration_time_s;
  std::vector<double> iteration_energy_j;  ///< as many
  Breakdown time_s;
  Breakdown energy_j;  ///< Merak's client leaves the inner lists empty

  friend bool operator==(const Result&, const Result&) = default;
};

/// Throws InputError when the degrees do not multiply to the world size, or anything is out of range.
[[nodiscard]] JobInfo read_perseus_job(std::string_view body);
/// `client` says which members the body has. Throws InputError for power states that are not positive or come twice.
[[nodiscard]] RankRegistration read_perseus_rank(std::string_view body, Client client);
/// Throws InputError for times and energies that are negative or no numbers, and when an iteration has a time but no
/// energy.
[[nodiscard]] Result read_perseus_result(std::string_view body);

[[nodiscard]] Json to_json(const JobInfo& job);
[[nodiscard]] Json to_json(const RankInfo& rank);
/// The same as Zeus' client says it: clocks, and no instructions.
[[nodiscard]] Json zeus_rank_info(const RankInfo& rank);
[[nodiscard]] Json to_json(const Result& result);

/// Reply of `GET /schedule/{job_id}` to the artifact's client; also an element of `N.sched.json`.
[[nodiscard]] Json perseus_power_states(int rank, std::span<const int> power_states);
/// The same to Zeus' client: `{"rank": 0, "frequencies": [["forward", 1410], ...]}`.
[[nodiscard]] Json zeus_frequencies(int rank, std::span<const Instruction> instructions,
                                    std::span<const int> clocks_mhz);

/// The id of a job as theirs: `2026-01-31-12-00-00+merak+gpt3-xl+...+Scheduler` in UTC, by whose end their scripts find
/// the folder of its results. Bytes that cannot stand in a URL and in a file name as they are become `_`; what stands
/// are letters, digits and `._-+:,=@~`. At most 255 bytes. Unique among jobs alike that begin in different seconds.
[[nodiscard]] std::string perseus_job_name(const JobInfo& job, std::string_view scheduler, double time_s);

/// Name of the file in which the artifact's profiler leaves its profile: `merak+gpt3-xl+...+nmb128.csv`.
[[nodiscard]] std::string perseus_profile_name(const JobInfo& job);

}  // namespace lowgear::server::perseus
