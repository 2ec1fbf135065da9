#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace lowgear::ipc {

/// The conversation between client library and agent over the lease socket (a Unix stream socket): frames of a 12-byte
/// header and a payload. The connection is the lease: when it closes, for whatever reason, the lease ends and the GPU
/// is restored.
///
///   client                                   agent
///   hello {version, gpu, rank, label}  --->
///                                      <---  lease {id, clock range, simulated} + ring file descriptor (SCM_RIGHTS)
///                                      or    refused {reason, whether it lasts}
///   plan {rank of the plan, JSON,      --->
///         iteration}
///                                      <---  accepted {}, refused {reason} or too_late {iteration}
///   release {}                         --->  (closes)
///                                      <---  ended {reason}, at any time after the lease (closes)
///
/// All integers little endian. Strings are UTF-8, length-prefixed. The agent accepts clients from
/// kOldestLeaseProtocolVersion on. A plan may name the iteration that it begins with; the answer is `too_late` when
/// that iteration has begun. A plan may also name iterations that try other clocks out. The agent sends `ended` before
/// it closes a lease that a person has ended: the client then does not request that GPU again by itself. A connection
/// that closes without `ended` has lost its agent.
inline constexpr std::uint32_t kFrameMagic = 0x4c474631;  // "LGF1"
inline constexpr std::size_t kFrameHeaderBytes = 12;      ///< magic, type, payload length: 4 bytes each
inline constexpr std::size_t kMaxFrameBytes = std::size_t{64}
                                              << 20U;  ///< a plan of 64 stages x 4,096 microbatches fits
inline constexpr std::size_t kMaxStringBytes = 4096;   ///< of every string but a plan's text
inline constexpr std::uint32_t kLeaseProtocolVersion = 4;
inline constexpr std::uint32_t kOldestLeaseProtocolVersion = 4;
inline constexpr std::size_t kMaxLeaseTrials = 1'000;

enum class FrameType : std::uint32_t {
  hello = 1,
  lease = 2,
  refused = 3,
  plan = 4,
  accepted = 5,
  release = 6,
  too_late = 7,
  ended = 8,
};

struct HelloMessage {
  std::uint32_t version = kLeaseProtocolVersion;
  std::string gpu;         ///< UUID or PCI address
  std::uint32_t rank = 0;  ///< global rank of the process in its job
  std::string job;         ///< free text for people: job id or name
};
struct LeaseMessage {
  std::uint64_t lease_id = 0;
  std::string gpu_uuid;
  std::string gpu_name;
  std::uint32_t min_clock_mhz = 0;  ///< range that the administrator allows this user
  std::uint32_t max_clock_mhz = 0;
  bool simulated = false;
  bool dry_run = false;  ///< the agent logs clocks instead of setting them
};
struct RefusedMessage {
  std::string reason;  ///< one line that a person can act on
  /// Of a lease: asking again is of no use before a person changes something. False from agents that do not know it.
  bool lasts = false;
};
/// Iterations, counted modulo 2^32 as in the unit ring, in which every unit that the plan names runs at this clock.
struct TrialIterations {
  std::uint32_t first_iteration = 0;
  std::uint32_t iterations = 0;
  std::uint32_t clock_mhz = 0;
  friend bool operator==(const TrialIterations&, const TrialIterations&) = default;
};
struct PlanMessage {
  std::uint32_t plan_rank = 0;  ///< rank (GPU position in the pipeline) of this process in the plan
  bool nearest_below = false;   ///< take the nearest supported clock below one that the GPU does not have
  std::string plan_json;        ///< lowgear.plan/1
  /// The plan begins with the first unit of this iteration (counted modulo 2^32 as in the unit ring), or of a later one
  /// if the begin of this iteration is lost; until then the previous plan is followed. Empty: the plan begins at once.
  std::optional<std::uint32_t> from_iteration;
  /// Only with `from_iteration`, at most kMaxLeaseTrials.
  std::vector<TrialIterations> trials = {};
};
struct AcceptedMessage {};
/// The plan's iteration had begun before the plan arrived. The agent ignores the whole plan.
struct TooLateMessage {
  std::uint32_t begun_iteration = 0;  ///< the newest that the agent has seen begin
};
/// A person has ended the lease.
struct EndedMessage {
  std::string reason;  ///< one line: who, and with what
};
/// The agent's response to a plan.
using PlanAnswer = std::variant<AcceptedMessage, RefusedMessage, TooLateMessage>;

/// Whether an iteration is `from` or a later one. Both count modulo 2^32 and lie less than 2^31 apart.
[[nodiscard]] constexpr bool has_come(std::uint32_t iteration, std::uint32_t from) {
  return iteration - from < 1U << 31U;
}

struct Frame {
  FrameType type = FrameType::release;
  std::vector<std::byte> payload;
};

[[nodiscard]] std::vector<std::byte> encode(const HelloMessage& message);  ///< whole frames, header included
[[nodiscard]] std::vector<std::byte> encode(const LeaseMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const RefusedMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const PlanMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const AcceptedMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const TooLateMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const EndedMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const PlanAnswer& answer);
[[nodiscard]] std::vector<std::byte> encode_empty(FrameType type);  ///< accepted, release

/// Throws InputError unless the payload is exactly one message: when it is cut off, too long, or not UTF-8.
[[nodiscard]] HelloMessage decode_hello(std::span<const std::byte> payload);
[[nodiscard]] LeaseMessage decode_lease(std::span<const std::byte> payload);
[[nodiscard]] RefusedMessage decode_refused(std::span<const std::byte> payload);
[[nodiscard]] PlanMessage decode_plan(std::span<const std::byte> payload);
[[nodiscard]] TooLateMessage decode_too_late(std::span<const std::byte> payload);
[[nodiscard]] EndedMessage decode_ended(std::span<const std::byte> payload);

/// Puts frames together from the pieces that a socket delivers.
class FrameReader {
 public:
  /// Adds received bytes. Throws InputError on a wrong magic, an unknown type or a payload over `max_bytes`; the
  /// connection is then unusable. Memory grows with the received bytes, not with the size in a header.
  void append(std::span<const std::byte> bytes);
  /// The next whole frame; empty when it is incomplete. Throws InputError when other bytes than a frame follow it.
  [[nodiscard]] std::optional<Frame> next();

  explicit FrameReader(std::size_t max_bytes = kMaxFrameBytes) : max_bytes_(max_bytes) {}

 private:
  void check_header() const;

  std::size_t max_bytes_;
  std::vector<std::byte> buffer_;
};

}  // namespace lowgear::ipc
